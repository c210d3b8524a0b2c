//! Tables of what the core decides are in `tests/decide`: a package of their own, since the core is built for speed and they are not.
