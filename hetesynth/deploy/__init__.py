"""``hetesynth build``: the cells of a manifest, made where they are stale, cached, deployed and reported."""
