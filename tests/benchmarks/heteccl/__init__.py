"""docs/hetecclpaper.md: the evaluation of HeteCCL (NSDI 2026), figure by figure, beside ours."""
