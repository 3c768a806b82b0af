"""Collectives of torch.distributed by synthesized tables: ``hetesynth.torch.load(folder).all_reduce(tensor)``.

Needs torch (``pip install 'hetesynth[torch]'``). docs/runtimes.md says for whom this is.
"""

from hetesynth.runtimes.torch.collective import Collective, load
from hetesynth.runtimes.torch.training import ddp_hook, use_in_fsdp

__all__ = ["Collective", "ddp_hook", "load", "use_in_fsdp"]
