"""Events on an interactive page: columns of clouds enter, one HTML file that needs no network leaves."""
