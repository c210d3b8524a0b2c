//! The CRDs against a real API server. The tests are in `tests/`; there is nothing here to use.
