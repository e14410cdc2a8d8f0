"""Messages of JSON in all spellings that there are, and nearly JSON."""

import json
import random

NUMBERS = ["0", "-0", "7", "-12", "1.0", "1.50", "1e3", "-2E-7", "1e400", "0.1e1", "9" * 19, "9" * 40]
BROKEN = [
    "01", "+1", ".5", "1.", "NaN", "Infinity", "-", "nul", "True", "''", r'"\x"', '"\x01"', r'"\u12g4"', "1 2", "",
]  # fmt: skip
TEXTS = [
    "Turkey", "", "C\u00f4te d'Ivoire", 'say "hi"', "a\\b", "a/b", "tab\t", "\u4e2d\u6587", "\U0001f600", "\ud83d",
    "\x7f", "\u2028", "\\u0041", "{", "}", "[,]", '":"', "country", "null", "7", "\x00", "\x01", "\\", "\\\\u",
]  # fmt: skip


def text(value, rng):
    """A text of JSON, spelled in one of the ways there are."""
    way = rng.randrange(4)
    if way < 2:
        return json.dumps(value, ensure_ascii=bool(way))
    units = value.encode("utf-16-be", "surrogatepass").hex()
    escaped = "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4))
    if way == 2:
        return f'"{escaped}"'
    return json.dumps(value).replace("/", "\\/")


def scalar(rng, broken):
    if rng.random() < broken:
        return rng.choice(BROKEN)
    kind = rng.choice([TEXTS, NUMBERS, ["true", "false", "null"]])
    return text(rng.choice(TEXTS), rng) if kind is TEXTS else rng.choice(kind)


def value(rng, depth, broken):
    """Any value of JSON, or with that probability nearly one."""
    kind = rng.randrange(8) if depth else 7
    if kind == 0:
        inner = [value(rng, depth - 1, broken) for _ in range(rng.randrange(3))]
        return "[" + ",".join(inner) + "]"
    if kind == 1:
        names = rng.choices(["a", "b", "country", "id"], k=rng.randrange(3))
        return "{" + ", ".join(f'"{name}": {value(rng, depth - 1, broken)}' for name in names) + "}"
    return scalar(rng, broken)


class Template:
    """Messages with the same names and white space, of which some break the rule in one place."""

    def __init__(self, rng, path):
        others = rng.sample(
            ["id", "n", "text", "\u00fcber", "with space", 'q"', "countr", "a.b", "[x]", "$"], rng.randrange(4)
        )
        members = [*others, path[0]]
        rng.shuffle(members)
        self.rng, self.members, self.path = rng, members, path
        self.colon, self.comma = rng.choice([":", ": ", " :\t"]), rng.choice([",", ", ", " ,\n"])
        self.ends = rng.choice([("", ""), ("", "\n"), (" ", " ")])
        self.kinds = {name: rng.randrange(3) for name in others}

    def member(self, name, broken):
        key = name == self.path[0] and self.rng.random() > broken
        if key and len(self.path) > 1:
            rest = text(self.rng.choice(TEXTS), self.rng)
            return f'"{name}"{self.colon}{{"{self.path[1]}"{self.colon}{rest}{self.comma}"z"{self.colon}1}}'
        if key:
            made = text(self.rng.choice(TEXTS), self.rng) if self.rng.random() < 0.9 else scalar(self.rng, 0.0)
        elif name == "n":
            made = scalar(self.rng, 0.0) if self.rng.random() < broken else str(self.rng.choice([0, 7, 10**18, 10**19]))
        elif self.kinds.get(name) == 1:
            made = f"[{', '.join(scalar(self.rng, broken / 3) for _ in range(self.rng.randrange(3)))}]"
        else:
            made = value(self.rng, 0 if self.kinds.get(name) == 2 else 2, broken / 3)
        return f"{json.dumps(name)}{self.colon}{made}"

    def message(self, broken):
        members = list(self.members)
        if self.rng.random() < broken:
            change = self.rng.randrange(3)
            if change == 0:
                members.append(self.rng.choice(members))  # a name twice
            elif change == 1:
                members.remove(self.rng.choice(members))
            else:
                self.rng.shuffle(members)
        made = self.comma.join(self.member(name, broken) for name in members)
        found = (self.ends[0] + "{" + made + "}" + self.ends[1]).encode("utf-8", "surrogatepass")
        if self.rng.random() < broken:
            at = self.rng.randrange(len(found))
            other = self.rng.choice(
                [b"", b'"', b"\\", b"\xff", b"\xc3", b",", b"}", b"{", b" ", b"\x00", b"\x0b", b"9", b":"]
            )
            found = found[:at] + other + found[at + self.rng.randrange(2) :]
        return found


def messages_of(seed, path, count=600):
    rng = random.Random(seed)
    templates = [Template(rng, path) for _ in range(3)]
    return [rng.choice(templates).message(rng.choice([0.0, 0.0, 0.3])) for _ in range(count)]
