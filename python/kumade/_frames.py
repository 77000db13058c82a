"""Frames of pandas from documents, by the types of their fields."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union, get_args, get_origin, get_type_hints

from ._program import KumadeError

if TYPE_CHECKING:
    import pandas


class Frames:
    """A document whose parts can be had as frames."""

    # That of the module in `documents`.
    _document_type: type
    document: Any

    def frame(self, part: str = "rows") -> pandas.DataFrame:
        """A list of the document, such as `rows` or `summary.points`, with a row for each element.

        A field within a field is a column, such as `goodput.value`. All columns are there, also those that are empty.
        Raises `KumadeError` where pandas is missing, or the document has no such list.
        """
        element_type, elements = self._find_list(part)
        return make_frame([flatten(element, element_type) for element in elements], column_names(element_type))

    def lists(self) -> List[str]:
        """The parts that `frame` takes."""
        return [name for name, kind in column_types(self._document_type) if record_of_list(kind)]

    def _find_list(self, part: str) -> Tuple[type, List[Any]]:
        kind: Optional[type] = dict(column_types(self._document_type)).get(part)
        element_type = record_of_list(kind)
        if element_type is None:
            raise KumadeError(f"the document has no list {part}, but {', '.join(self.lists())}")
        value: Any = self.document
        for name in part.split("."):
            value = (value or {}).get(name)
        return element_type, value or []


def make_frame(records: List[Dict[str, Any]], columns: List[str]) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise KumadeError("frames take pandas: pip install 'kumade[pandas]'") from error
    # A field that is missing and one that is null are the same in a column.
    rows = [{name: record.get(name) for name in columns} for record in records]
    frame: pandas.DataFrame = pandas.DataFrame(rows, columns=columns)
    return frame


def column_types(record: type, prefix: str = "") -> List[Tuple[str, Any]]:
    """The fields of a record, and of the records in it, with their types."""
    columns: List[Tuple[str, Any]] = []
    for name, hint in get_type_hints(record, vars(sys.modules[record.__module__])).items():
        kind = without_none(hint)
        columns += column_types(kind, f"{prefix}{name}.") if is_record(kind) else [(prefix + name, kind)]
    return columns


def column_names(record: type) -> List[str]:
    return [name for name, _ in column_types(record)]


def flatten(value: Optional[Dict[str, Any]], record: type) -> Dict[str, Any]:
    """A record's fields by the names of its columns."""
    fields: Dict[str, Any] = {}
    for name, hint in get_type_hints(record, vars(sys.modules[record.__module__])).items():
        kind, inner = without_none(hint), (value or {}).get(name)
        if is_record(kind):
            fields.update({f"{name}.{key}": each for key, each in flatten(inner, kind).items()})
        else:
            fields[name] = inner
    return fields


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__total__")


def record_of_list(kind: Any) -> Optional[type]:
    kind = without_none(kind)
    element: Any = get_args(kind)[0] if get_origin(kind) is list else None
    return element if is_record(element) else None


def without_none(hint: Any) -> Any:
    """T of Optional[T]."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if get_origin(hint) is Union and len(kinds) == 1 else hint
