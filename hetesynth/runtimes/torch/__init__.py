"""Tables over point-to-point calls of torch.distributed: the only package that imports torch."""
