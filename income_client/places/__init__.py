"""Places that a document's file may go to; which one is told by what the caller names."""

from .choice import Destination, place_of
from .folder_place import FolderPlace
from .path_place import PathPlace
from .place import Place, Present, Published
from .store_place import StorePlace
from .stream_place import StreamPlace

__all__ = [
    "Destination",
    "FolderPlace",
    "PathPlace",
    "Place",
    "Present",
    "Published",
    "StorePlace",
    "StreamPlace",
    "place_of",
]
