"""From a topology to pages: what a run, an atlas or a log shows, as the blocks of a report."""
