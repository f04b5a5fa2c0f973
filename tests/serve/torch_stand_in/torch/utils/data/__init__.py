from .dataloader import DataLoader  # noqa: F401
from .dataset import IterableDataset  # noqa: F401


def get_worker_info():
    """The items are loaded by this process."""
