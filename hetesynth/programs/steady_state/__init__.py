"""Programs in steady state: the trees of a schedule carry piece after piece, and no scarce resource waits."""
