"""Whether one thing is faster than another, from few launches that vary: intervals, floors, verdicts. Pure."""
