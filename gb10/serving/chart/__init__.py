"""Charts as SVG, in the colours of the page that holds them; a phone can read them. Pure."""
