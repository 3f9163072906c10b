"""Load on a serving endpoint: requests, their streams judged, throughput with canaries beside it."""
