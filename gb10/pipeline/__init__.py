"""The pipeline: plan, fetch, compile, assemble, prove; each module is one phase."""
