"""What ``topo lint`` looks for: a code, a name and a line for each rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """A check: its code, its name in SARIF, and what it says."""

    code: str
    name: str
    summary: str


RULES = (
    Rule("HS240", "unlike-twins", "a GPU has less bandwidth inside its server than the others"),
    Rule("HS241", "odd-bandwidth", "a bandwidth that no such hardware has: off by 8 or by 1000"),
    Rule("HS242", "odd-latency", "a latency that no such hardware has: off by 1000"),
    Rule("HS243", "named-twice", "a list names the same part twice"),
    Rule("HS244", "asymmetry", "a link in one direction only, or directions or NICs of unlike rates"),
    Rule("HS245", "idle-part", "hardware that no link uses, or GPUs that only one direction reaches"),
    Rule("HS246", "unused-definition", "a node type or an import that nothing uses"),
    Rule("HS247", "rounding", "rounding to whole chunks distorts a rate too much"),
    Rule("HS248", "unlike-servers", "servers of one type with unlike rates"),
    Rule("HS249", "odd-pcie", "a PCIe rate as virtual machines state it"),
    Rule("HS251", "one-of-a-range", "one instance with a number where several may have been meant"),
    Rule("HS252", "unlike-model", "a rate that GPUs of the stated model, or NICs beside them, do not have"),
    Rule("HS253", "narrow-slot", "a NIC faster than what joins it to GPUs, or a slot narrower than its twins"),
    Rule("HS254", "many-gpus", "more GPUs in a server than the stated model is built with"),
    Rule("HS255", "narrow-network", "a fabric or its uplinks with less than the NICs below"),
    Rule("HS256", "linked-twice", "two links of one kind between the same two parts"),
    Rule("HS257", "swapped-rails", "NICs of a server in other fabrics than those of its peers"),
)
