"""Mutants that no test can notice, because the program does the same: each with the reason."""

_AGAIN = "what was kept is worked out again"
EQUIVALENT: dict[str, str] = {
    "hetesynth/judge/bounds/query.py Facts.hops+3: if pre not in self._hops: => if True:": _AGAIN,
    "hetesynth/judge/bounds/query.py Facts.place+2: if name not in self._places: => if True:": _AGAIN,
    "hetesynth/judge/bounds/query.py _stated+2: while isinstance(tree, list) and len(tree) == 3 and "
    "(tree[0] == 'let'): => while len(tree) == 3 and tree[0] == 'let':": "a character is not `let`",
    "hetesynth/judge/bounds/query.py _stated+4: for pair in tree[1] if isinstance(tree[1], list) "
    "else [[]]: => for pair in tree[1] if True else [[]]:": "characters are no pairs",
    "hetesynth/judge/bounds/query_sums.py SumFacts._laws+17: if 0 <= step < self.steps: => if 0 <= "
    "step <= self.steps:": "laws of the step after the last speak of facts that no query can name",
    "hetesynth/judge/bounds/query_sums.py SumFacts.check_count+15: demand(kinds <= {'send', "
    "'brings'}, 'the query counts something that is not sent') => demand(kinds < {'send', "
    "'brings'}, 'the query counts something that is not sent')": "kinds are one by then",
    "hetesynth/judge/bounds/query_sums.py SumFacts.fact+2: if name not in self._facts: => if True:": _AGAIN,
}
