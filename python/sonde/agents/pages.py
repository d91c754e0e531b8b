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
_SHORT_TEXT = 100  # characters of a name; a list of sentences is cut as rows are
# Characters of a text that are shown, and levels of objects below the top: the first with which the answer fits.
_LEVELS = ((2000, 99), (400, 99), (100, 99), (100, 2), (100, 1))
_SMALLEST_ROW = 2  # characters
_REPEATED = 100  # characters from which a repeated part is worth a name


_Rest = dict[str, tuple[list[Any], int]]  # by handle: the rows, and the first that was not shown


class _Kept(NamedTuple):
    """An answer of which not all was shown."""

    values: int
    names: Mapping[str, str]
    rest: _Rest


class Pages:
    """Cuts answers, and keeps those that it cut for a while."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []  # the oldest first
        self._number = 0  # of the last handle

    def first(self, document: Mapping[str, Any], limit: int) -> str:
        """The beginning of a document, as JSON of at most `limit` characters."""
        names = _names_of_parts(document)
        cut = self._fitted(document, names, limit)
        if cut.rest:
            self._kept.append(_Kept(_count(document), names, cut.rest))
        while len(self._kept) > 1 and sum(one.values for one in self._kept) > _KEPT_VALUES:
            del self._kept[0]
        return cut.text

    def more(self, handle: str, limit: int) -> str:
        """Further rows of a list. Raises ValueError if there is no such handle, or not any more."""
        kept = next((one for one in self._kept if handle in one.rest), None)
        if kept is None:
            raise ValueError(f"no handle '{handle[:20]}', or one of an answer long ago; ask the question again")
        rows, begin = kept.rest[handle]
        document = {"from": begin, "of": len(rows), "rows": _End(rows, begin)}
        cut = self._fitted(document, kept.names, limit, fewest=1)
        kept.rest.update(cut.rest)
        return cut.text

    def _fitted(self, document: Mapping[str, Any], names: Mapping[str, str], limit: int, fewest: int = 0) -> _Cut:
        """The most rows of each list, at least `fewest`, with which the whole fits."""
        for longest, depth in _LEVELS:
            cut = _most_that_fit(document, _Form(names, longest, depth + fewest, self._number), limit)
            if cut is not None and cut.rows >= fewest:
                self._number += len(cut.rest)
                return cut
        raise Error(f"the answer does not fit in {limit} characters; ask with a larger `limit`")


class _Form(NamedTuple):
    """The form of an answer, but for the number of rows."""

    names: Mapping[str, str]  # of parts at the top, by their JSON
    longest: int  # characters of a text
    depth: int  # levels of objects below the top
    number: int  # of the handle before


def _most_that_fit(document: Mapping[str, Any], form: _Form, limit: int) -> _Cut | None:
    rows = _most_rows(document, limit // _SMALLEST_ROW)
    found, too_many = None, rows + 1
    while too_many - (found.rows if found else -1) > 1:
        cut = _Cut(document, rows, form)
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
    """A document with at most `rows` rows in each list, as JSON."""

    def __init__(self, document: Mapping[str, Any], rows: int, form: _Form) -> None:
        self.rows, self._form = rows, form
        self.rest: _Rest = {}
        self.text = _text(self._of(document, 0))

    def _of(self, value: Any, depth: int) -> Any:
        longest = self._form.longest
        if isinstance(value, str) and len(value) > longest:
            return f"{value[:longest]}… ({len(value) - longest} more characters)"
        if isinstance(value, Mapping):
            return self._object(value, depth)
        return self._list(value, depth) if isinstance(value, list) else value

    def _object(self, value: Mapping[str, Any], depth: int) -> Any:
        if depth > 1 and self._form.names and (name := self._form.names.get(_text(value))):
            return {"same_as": name}
        if depth > self._form.depth and value:
            return self._rest_of([value], 0)
        shown = ((name, one) for name, one in value.items() if depth == 0 or one not in ("", [], {}))
        return {name: self._of(one, depth + 1) for name, one in shown}

    def _list(self, values: list[Any], depth: int) -> list[Any]:
        is_plain = all(map(_is_short, values[:_SHORT_LIST]))
        rows = max(self.rows, _SHORT_LIST if is_plain else 0)
        shown = [self._of(one, depth + 1) for one in values[:rows]]
        return shown if len(values) <= rows else [*shown, self._rest_of(values, rows)]

    def _rest_of(self, values: list[Any], begin: int) -> dict[str, Any]:
        handle = f"a{self._form.number + len(self.rest) + 1}"
        whole, skipped = (values.whole, values.begin) if isinstance(values, _End) else (values, 0)
        self.rest[handle] = (whole, skipped + begin)
        return {"more": len(values) - begin, "handle": handle}


def _is_short(value: Any) -> bool:
    """Whether it is a number or a name."""
    return len(value) <= _SHORT_TEXT if isinstance(value, str) else not isinstance(value, (dict, list))


def _text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _most_rows(value: Any, most: int) -> int:
    """The length of the longest list; `most`: a larger one does not matter."""
    if isinstance(value, Mapping):
        return max((_most_rows(one, most) for one in value.values()), default=0)
    if not isinstance(value, list):
        return 0
    return min(most, max(len(value), *(_most_rows(one, most) for one in value[:most]), 0))


def _count(value: Any) -> int:
    """About the number of values in a document: rows of a list are alike."""
    if isinstance(value, list):
        first = value[:_SHORT_LIST]
        return 1 + sum(map(_count, first)) * len(value) // max(len(first), 1)
    return 1 + sum(map(_count, value.values())) if isinstance(value, Mapping) else 1


def _names_of_parts(document: Mapping[str, Any]) -> dict[str, str]:
    """Names of objects at the top by their JSON: `findings` begins with `first`, and so do others."""
    names: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, dict) and len(text := _text(value)) >= _REPEATED:
            names.setdefault(text, name)
    return names
