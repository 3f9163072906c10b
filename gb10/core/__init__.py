"""The machine that gb10 runs on: settings, store, child processes, downloads, forecasts, and what a person sees."""
