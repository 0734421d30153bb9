"""Reproductions: each is a package with one `EXPERIMENT` and a `claims.toml`."""
