"""Mutants that no test can notice, because the program does the same: each with the reason."""

_AGAIN = "what was kept is worked out again"
EQUIVALENT: dict[str, str] = {
    "hetesynth/judge/bounds/delays.py priced+19: resources.append(((wire.bandwidth or Fraction(0)) "
    "* wire.lanes * witness.wires[w], links)) => resources.append(((wire.bandwidth or Fraction(1)) "
    "* wire.lanes * witness.wires[w], links))": "a wire without a limit was refused",
    "hetesynth/judge/bounds/delays.py priced+24: if price: => if True:": "a price of 0 earns nothing",
    "hetesynth/judge/bounds/delays.py delayed+39: for delay, part in _parts({(by_link[i], "
    "tuple(dues[i])) for i in links if dues[i]}): => for delay, part in _parts({(by_link[i], "
    "tuple(dues[i])) for i in links}):": "without dues there are no parts",
    "hetesynth/judge/bounds/delays.py into_parts+14: least = min((a for a, x in zip(alphas, "
    "topology.links, strict=True) if home[x.src] != home[x.dst]), default=0) => least = min((a for "
    "a, x in zip(alphas, topology.links, strict=True) if home[x.src] != home[x.dst]), "
    "default=1)": "links join all parts",
    "hetesynth/judge/bounds/delays.py _enter+13: if src not in inside and dst in inside and "
    "(max(come[src], to_end[dst]) < NONE // 8): => if src not in inside and dst in inside and "
    "(max(come[src], to_end[dst]) <= NONE // 8):": "no path is nearly so long",
    "hetesynth/judge/bounds/delays.py _enter+13: if src not in inside and dst in inside and "
    "(max(come[src], to_end[dst]) < NONE // 8): => if src not in inside and dst in inside and "
    "(max(come[src], to_end[dst]) < NONE // 9):": "no path is nearly so long",
    "hetesynth/judge/bounds/delays.py _by+1: return sum((rate * (time - since) for since, rate in "
    "supply if since < time), Fraction(0)) => return sum((rate * (time - since) for since, rate in "
    "supply if since <= time), Fraction(0))": "it has given nothing by then",
    "hetesynth/judge/bounds/laws.py price_steps+25: if not reduces and len(pre) == 1 and (len(pre | "
    "post) == problem.ranks): => if len(pre) == 1 and len(pre | post) == problem.ranks:": "sums start everywhere",
    "hetesynth/judge/bounds/laws.py stepped_price_steps+23: if pre not in cheapest: => if True:": _AGAIN,
    "hetesynth/judge/bounds/laws.py stepped_price_steps+31: paid += max((int(cheapest[pre][rank]) "
    "for rank in post), default=0) => paid += max((int(cheapest[pre][rank]) for rank in post), "
    "default=1)": "every chunk has a target",
    "hetesynth/judge/bounds/laws.py arborescence_cost+28: _merge(entering, root, [root, *path]) => "
    "(gone)": "their ways to the root cost nothing when they are followed again",
    "hetesynth/judge/bounds/laws.py arborescence_cost+16: if least >= NONE // 2: => if least > NONE "
    "// 2:": "no cost is near it",
    "hetesynth/judge/bounds/laws.py arborescence_cost+16: if least >= NONE // 2: => if least >= "
    "NONE // 3:": "no cost is near it",
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
