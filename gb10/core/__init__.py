"""The machine that gb10 runs on: settings, store, child processes, downloads, and what a person sees."""
