"""Answers in parts: the first rows of each list, and a handle for the others.

    {"tensors": [{"slot": 0, …}, {"slot": 1, …}, {"more": 270, "handle": "a1"}]}

An object that does not fit is such a handle too. Members of rows that are empty are left out, and a part that equals
one at the top is `{"same_as": "first"}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import Error

_KEPT_VALUES = 1_000_000  # of answers with handles: some 100 MB
_SHORT_LIST = 16  # of numbers or names, as a shape: it is shown whole
# Characters of a text that are shown, and levels of objects below the top: the first with which the answer fits.
_LEVELS = ((2000, 99), (400, 99), (100, 99), (100, 2), (100, 1))
_SMALLEST_ROW = 2  # characters
_REPEATED = 100  # characters from which a repeated part is worth a name


class _Kept(NamedTuple):
    """An answer of which not all was shown."""

    values: int
    lists: dict[str, tuple[list[Any], int]]  # by handle: the rows, and the first that was not shown


class Pages:
    """Cuts answers, and keeps those that it cut for a while."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []  # the oldest first
        self._number = 0  # of the last handle

    def first(self, document: Mapping[str, Any], limit: int) -> str:
        """The beginning of a document, as JSON of at most `limit` characters."""
        cut = self._fitted(_without_repetition(document), limit)
        if cut.rest:
            self._kept.append(_Kept(_count(document), cut.rest))
        while len(self._kept) > 1 and sum(one.values for one in self._kept) > _KEPT_VALUES:
            del self._kept[0]
        return cut.text

    def more(self, handle: str, limit: int) -> str:
        """Further rows of a list. Raises ValueError if there is no such handle, or not any more."""
        kept = next((one for one in self._kept if handle in one.lists), None)
        if kept is None:
            raise ValueError(f"no handle '{handle[:20]}', or one of an answer long ago; ask the question again")
        rows, begin = kept.lists[handle]
        cut = self._fitted({"from": begin, "of": len(rows), "rows": _End(rows, begin)}, limit, fewest=1)
        kept.lists.update(cut.rest)
        return cut.text

    def _fitted(self, document: Mapping[str, Any], limit: int, fewest: int = 0) -> _Cut:
        """The most rows of each list, at least `fewest`, with which the whole fits."""
        for text, depth in _LEVELS:
            cut = _most_that_fit(document, limit, text, depth + fewest, self._number)
            if cut is not None and cut.rows >= fewest:
                self._number += len(cut.rest)
                return cut
        raise Error(f"the answer does not fit in {limit} characters; ask with a larger `limit`")


def _most_that_fit(document: Mapping[str, Any], limit: int, text: int, depth: int, number: int) -> _Cut | None:
    rows = min(_most_rows(document), limit // _SMALLEST_ROW)
    found, too_many = None, rows + 1
    while too_many - (found.rows if found else -1) > 1:
        cut = _Cut(document, rows, text, depth, number)
        if len(cut.text) <= limit:
            found = cut
        else:
            too_many = rows
        rows = ((found.rows if found else -1) + too_many) // 2
    return found


class _End(list[Any]):
    """The end of a list, which knows the whole."""

    def __init__(self, rows: list[Any], begin: int) -> None:
        super().__init__(rows[begin:])
        self.whole, self.begin = rows, begin


class _Cut:
    """A document with at most `rows` rows in each list, texts of at most `longest` characters and objects of at most
    `depth` levels below the top, as JSON. `number`: that of the handle before."""

    def __init__(self, document: Mapping[str, Any], rows: int, longest: int, depth: int, number: int) -> None:
        self.rows, self._longest, self._depth, self._number = rows, longest, depth, number
        self.rest: dict[str, tuple[list[Any], int]] = {}
        self.text = _text(self._of(document, 0))

    def _of(self, value: Any, depth: int) -> Any:
        if isinstance(value, str) and len(value) > self._longest:
            return f"{value[: self._longest]}… ({len(value) - self._longest} more characters)"
        if isinstance(value, Mapping):
            if depth > self._depth and value:
                return self._rest_of([value], 0)
            return {name: self._of(one, depth + 1) for name, one in value.items()}
        return self._list(value, depth) if isinstance(value, list) else value

    def _list(self, values: list[Any], depth: int) -> list[Any]:
        is_plain = not any(isinstance(one, (dict, list)) for one in values[:_SHORT_LIST])
        rows = max(self.rows, _SHORT_LIST if is_plain else 0)
        shown = [self._of(one, depth + 1) for one in values[:rows]]
        return shown if len(values) <= rows else [*shown, self._rest_of(values, rows)]

    def _rest_of(self, values: list[Any], begin: int) -> dict[str, Any]:
        handle = f"a{self._number + len(self.rest) + 1}"
        whole, skipped = (values.whole, values.begin) if isinstance(values, _End) else (values, 0)
        self.rest[handle] = (whole, skipped + begin)
        return {"more": len(values) - begin, "handle": handle}


def _text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _most_rows(value: Any) -> int:
    """The length of the longest list."""
    if isinstance(value, Mapping):
        return max(map(_most_rows, value.values()), default=0)
    return max(len(value), *map(_most_rows, value), 0) if isinstance(value, list) else 0


def _count(value: Any) -> int:
    """Numbers, texts and their containers."""
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, parts))


def _without_repetition(document: Mapping[str, Any]) -> dict[str, Any]:
    """`findings` begins with `first`, and so do others."""
    names: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, dict) and len(text := _text(value)) >= _REPEATED:
            names.setdefault(text, name)
    return {name: _plain(value, names, is_top=isinstance(value, dict)) for name, value in document.items()}


def _plain(value: Any, names: Mapping[str, str], is_top: bool = False) -> Any:
    if isinstance(value, list):
        return [_plain(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    if not is_top and names and (name := names.get(_text(value))):
        return {"same_as": name}
    return {name: _plain(one, names) for name, one in value.items() if one not in ("", [], {})}
