"""The part of torch that guidellm uses for its requests: a loader of one item at a time. Torch itself is 2 GB."""
from . import utils  # noqa: F401


class Generator:
    def manual_seed(self, seed):
        """Items are not shuffled, so no seed matters."""


class Tensor:
    """Type of arguments that are not used."""
