import typing

Item = typing.TypeVar("Item")


class IterableDataset(typing.Generic[Item]):
    """Items in their order."""
