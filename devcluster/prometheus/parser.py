"""From a PromQL text to its nodes. What devcluster does not evaluate is refused by name."""

from __future__ import annotations

import math

from .lexer import ParseError, Token, milliseconds, tokens, unquoted
from .nodes import (
    SCALAR,
    VECTOR,
    Aggregation,
    Binary,
    Call,
    Matching,
    Negated,
    Node,
    Number,
    Selector,
    Text,
)
from .signatures import FUNCTIONS
from .storage import NAME, Matcher

AGGREGATIONS = frozenset(
    ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile"]
)
_WITH_PARAMETER = frozenset({"topk", "bottomk", "quantile"})
_UNKNOWN_AGGREGATIONS = frozenset({"count_values", "limitk", "limit_ratio"})
SETS = ("and", "or", "unless")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_LEVELS = (("or",), ("and", "unless"), COMPARISONS, ("+", "-"), ("*", "/", "%", "atan2"), ("^",))
_KEYWORDS = frozenset(
    {*SETS, "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "atan2"}
)
DEPTH_MAX = 100


def parse(query: str) -> Node:
    """Raises ParseError."""
    if not query.strip():
        raise ParseError(len(query), "no expression found in input")
    return _Parser(query).whole()


class _Parser:
    def __init__(self, query: str) -> None:
        self._tokens = tokens(query)
        self._index = 0
        self._depth = 0

    # Words

    @property
    def _now(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._now
        self._index += token.kind != "end"
        return token

    def _is(self, *texts: str) -> bool:
        token = self._now
        if token.kind == "word":
            return token.text.lower() in texts
        return token.kind == "sign" and token.text in texts

    def _skip(self, *texts: str) -> bool:
        found = self._is(*texts)
        self._index += found
        return found

    def _expect(self, text: str, where: str) -> Token:
        if not self._is(text):
            raise self._unexpected(where, f'"{text}"')
        return self._take()

    def _unexpected(self, where: str, expected: str = "") -> ParseError:
        token = self._now
        if token.kind == "end" and text_of(expected) == ")":
            return ParseError(token.at, "unclosed left parenthesis")
        what = "end of input" if token.kind == "end" else f'"{token.text}"'
        more = f", expected {expected}" if expected else ""
        return ParseError(token.at, f"unexpected {what} in {where}{more}")

    # Expressions

    def whole(self) -> Node:
        node = self._binary(0)
        if self._now.kind != "end":
            raise self._unexpected("expression" if not self._is(")") else "parenthesized expression")
        return node

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS) - 1:
            return self._power()
        left = self._binary(level + 1)
        while self._is(*_LEVELS[level]):
            operator = self._take()
            as_bool, matching = self._modifiers(operator)
            left = self._joined(operator, left, self._binary(level + 1), matching, as_bool=as_bool)
        return left

    def _power(self) -> Node:
        if self._is("+", "-"):
            # A sign binds as a product does: less than a power.
            sign = self._take()
            inner = self._power()
            if inner.type not in {SCALAR, VECTOR}:
                text = f'unary expression only allowed on expressions of type scalar or instant vector, got "{inner.type}"'
                raise ParseError(sign.at, text)
            return Negated(at=sign.at, inner=inner) if sign.text == "-" else inner
        base = self._postfix(self._primary())
        if not self._is("^"):
            return base
        operator = self._take()
        as_bool, matching = self._modifiers(operator)
        return self._joined(operator, base, self._power(), matching, as_bool=as_bool)

    def _modifiers(self, operator: Token) -> tuple[bool, Matching]:
        as_bool = self._skip("bool")
        if as_bool and operator.text not in COMPARISONS:
            raise ParseError(operator.at, "bool modifier can only be used on comparison operators")
        if not self._is("on", "ignoring"):
            return as_bool, Matching()
        on = self._take().text.lower() == "on"
        labels, group = self._label_list("grouping opts"), ""
        include: tuple[str, ...] = ()
        if self._is("group_left", "group_right"):
            word = self._take()
            if operator.text.lower() in SETS:
                raise ParseError(word.at, f'no grouping allowed for "{operator.text}" operation')
            group = word.text.lower().removeprefix("group_")
            include = self._label_list("grouping opts") if self._is("(") else ()
        return as_bool, Matching(labels=labels, on=on, group=group, include=include)

    def _joined(self, operator: Token, left: Node, right: Node, matching: Matching, *, as_bool: bool) -> Node:
        word, types = operator.text.lower(), {left.type, right.type}
        for side in (left, right):
            if side.type not in {SCALAR, VECTOR}:
                text = "binary expression must contain only scalar and instant vector types"
                raise ParseError(side.at, text)
        if word in SETS and types != {VECTOR}:
            raise ParseError(operator.at, f'set operator "{word}" not allowed in binary scalar expression')
        if word in COMPARISONS and types == {SCALAR} and not as_bool:
            raise ParseError(operator.at, "comparisons between scalars must use BOOL modifier")
        if matching.labels and types != {VECTOR}:
            raise ParseError(operator.at, "vector matching only allowed between instant vectors")
        return Binary(at=left.at, operator=word, left=left, right=right, matching=matching, as_bool=as_bool)

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._is("["):
                node = self._ranged(node)
            elif self._is("offset"):
                node = self._shifted(node)
            elif self._is("@"):
                raise ParseError(self._now.at, "devcluster does not evaluate the @ modifier")
            else:
                return node

    def _ranged(self, node: Node) -> Node:
        bracket = self._take()
        span = self._duration("range specification")
        if self._now.text.startswith(":"):
            raise ParseError(bracket.at, "devcluster does not evaluate subqueries")
        self._expect("]", "range specification")
        if not isinstance(node, Selector) or node.span or node.offset:
            raise ParseError(bracket.at, "ranges only allowed for vector selectors")
        if not span:
            raise ParseError(bracket.at, "duration must be greater than 0")
        return Selector(at=node.at, matchers=node.matchers, span=span)

    def _shifted(self, node: Node) -> Node:
        word = self._take()
        sign = -1 if self._skip("-") else 1
        if not isinstance(node, Selector):
            text = f"offset modifier must be preceded by an instant vector selector or range vector selector, but follows a {node.type} instead"
            raise ParseError(word.at, text)
        offset = sign * self._duration("offset")
        return Selector(at=node.at, matchers=node.matchers, span=node.span, offset=offset)

    def _duration(self, where: str) -> int:
        token = self._now
        if token.kind == "duration":
            return milliseconds(self._take().text)
        if token.kind == "number" and token.text.isdigit() and where != "range specification":
            return int(self._take().text) * 1000
        raise ParseError(
            token.at, f"unexpected {token.text or 'end of input'!r} in {where}, expected duration"
        )

    # Primaries

    def _primary(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ParseError(self._now.at, f"the expression is nested more than {DEPTH_MAX} deep")
        node = self._one()
        self._depth -= 1
        return node

    def _one(self) -> Node:
        token = self._now
        match token.kind:
            case "number":
                text = self._take().text
                return Number(
                    at=token.at, value=float(int(text, 16) if text[:2].lower() == "0x" else float(text))
                )
            case "string":
                return Text(at=token.at, value=unquoted(self._take()))
            case "word":
                return self._named()
        if self._is("("):
            self._take()
            node = self._binary(0)
            self._expect(")", "parenthesized expression")
            return node
        if self._is("{"):
            return self._selector("")
        raise self._unexpected("expression")

    def _named(self) -> Node:
        token = self._take()
        word, follows = token.text.lower(), self._now
        if word in {"inf", "nan"} and not self._is("{"):
            return Number(at=token.at, value=math.inf if word == "inf" else math.nan)
        called = follows.kind == "sign" and follows.text == "("
        if word in _UNKNOWN_AGGREGATIONS and called:
            raise ParseError(token.at, f"devcluster does not evaluate the aggregation {word}")
        if word in AGGREGATIONS and (called or self._is("by", "without")):
            return self._aggregation(token)
        if called:
            return self._call(token)
        if word in _KEYWORDS:
            self._index -= 1
            raise self._unexpected("expression")
        return self._selector(token.text)

    def _aggregation(self, token: Token) -> Node:
        labels, without = self._grouping()
        self._expect("(", "aggregation")
        arguments = self._arguments()
        if self._is("by", "without"):
            labels, without = self._grouping()
        word = token.text.lower()
        wanted = 2 if word in _WITH_PARAMETER else 1
        if len(arguments) != wanted:
            text = f"wrong number of arguments for aggregate expression provided, expected {wanted}, got {len(arguments)}"
            raise ParseError(token.at, text)
        inner, parameter = arguments[-1], arguments[0] if wanted == 2 else None
        _check(inner, VECTOR, "aggregation expression")
        if parameter is not None:
            _check(parameter, SCALAR, "aggregation parameter")
        return Aggregation(
            at=token.at, function=word, inner=inner, parameter=parameter, labels=labels, without=without
        )

    def _grouping(self) -> tuple[tuple[str, ...], bool]:
        if not self._is("by", "without"):
            return (), False
        without = self._take().text.lower() == "without"
        return self._label_list("grouping opts"), without

    def _label_list(self, where: str) -> tuple[str, ...]:
        self._expect("(", where)
        labels = []
        while not self._is(")"):
            if self._now.kind != "word" or ":" in self._now.text:
                raise self._unexpected(where, "label")
            labels.append(self._take().text)
            if not self._skip(",") and not self._is(")"):
                raise self._unexpected(where, '"," or ")"')
        self._take()
        return tuple(labels)

    def _arguments(self) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._skip(")"):
            found.append(self._binary(0))
            if not self._skip(",") and not self._is(")"):
                raise self._unexpected("function call arguments", '")"')
        return tuple(found)

    def _call(self, token: Token) -> Node:
        known = FUNCTIONS.get(token.text)
        if known is None:
            text = f'unknown function with name "{token.text}", or one that devcluster does not evaluate'
            raise ParseError(token.at, text)
        self._take()
        arguments = self._arguments()
        least, most = known.least, len(known.arguments)
        if not least <= len(arguments) <= most:
            count = (
                str(most)
                if least == most
                else f"at least {least}"
                if len(arguments) < least
                else f"at most {most}"
            )
            text = f'expected {count} argument(s) in call to "{token.text}", got {len(arguments)}'
            raise ParseError(token.at, text)
        for argument, wanted in zip(arguments, known.arguments, strict=False):
            _check(argument, wanted, f'call to function "{token.text}"')
        return Call(at=token.at, function=token.text, arguments=arguments, returns=known.returns)

    def _selector(self, name: str) -> Node:
        at = self._now.at - len(name) if self._is("{") else self._tokens[self._index - 1].at
        matchers = [Matcher(NAME, "=", name)] if name else []
        if self._skip("{"):
            while not self._is("}"):
                matchers.append(self._matcher(name))
                if not self._skip(",") and not self._is("}"):
                    raise self._unexpected("label matching", '"," or "}"')
            self._take()
        if all(_matches_empty(matcher) for matcher in matchers):
            raise ParseError(at, "vector selector must contain at least one non-empty matcher")
        return Selector(at=at, matchers=tuple(matchers))

    def _matcher(self, name: str) -> Matcher:
        if self._now.kind == "end":
            raise ParseError(self._now.at, "unexpected end of input inside braces")
        if self._now.kind != "word" or ":" in self._now.text:
            raise self._unexpected("label matching", 'identifier or "}"')
        label = self._take()
        if not self._is("=", "!=", "=~", "!~"):
            raise self._unexpected("label matching", "label matching operator")
        operator = self._take().text
        if self._now.kind != "string":
            raise self._unexpected("label matching", "string")
        value = self._take()
        matcher = Matcher(label.text, operator, unquoted(value))
        try:
            matcher.test()
        except ValueError as error:
            raise ParseError(value.at, str(error)) from error
        if name and label.text == NAME:
            raise ParseError(label.at, f'metric name must not be set twice: "{name}" or "{matcher.value}"')
        return matcher


def text_of(expected: str) -> str:
    return expected.strip('"')


def _check(node: Node, wanted: str, where: str) -> None:
    if node.type != wanted:
        raise ParseError(node.at, f"expected type {wanted} in {where}, got {node.type}")


def _matches_empty(matcher: Matcher) -> bool:
    return matcher.test()("")
