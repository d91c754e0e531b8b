"""Reads the text form of protobuf messages: {field: [values]} of each, in the order of the text."""

import re

_TOKEN = re.compile(r'\s*(?:(\w+)\s*(\{|:)|(\})|("(?:[^"\\]|\\.)*")|([^\s{}"]+))')
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}


def parse(text):
    message, end = _message(text, 0)
    assert not text[end:].strip(), f"text after the message: {text[end : end + 40]!r}"
    return message


def _message(text, position):
    message = {}
    while position < len(text) and text[position:].strip():
        token = _TOKEN.match(text, position)
        assert token, f"not protobuf text: {text[position : position + 40]!r}"
        position = token.end()
        if token[3]:
            return message, position
        assert token[1], f"a field was expected: {token[0]!r}"
        if token[2] == "{":
            value, position = _message(text, position)
        else:
            scalar = _TOKEN.match(text, position) or re.compile(r"\s*(\S+)").match(text, position)
            raw = scalar[0].strip()
            if raw.startswith('"'):
                value = _string(raw[1:-1])
            else:
                raw = re.match(r"\s*(\S+)", text[position:])[1]
                scalar = re.compile(r"\s*\S+").match(text, position)
                value = int(raw) if re.fullmatch(r"-?\d+", raw) else raw
            position = scalar.end()
        message.setdefault(token[1], []).append(value)
    return message, position


def _string(raw):
    data = bytearray()
    for octal, escaped, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\]+)", raw, re.DOTALL):
        if octal:
            data.append(int(octal, 8))
        else:
            data += (_NAMED.get(escaped, escaped) or plain).encode()
    return data.decode()
