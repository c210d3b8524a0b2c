//! Compute Engine: instances, instance templates, managed instance groups and operations, as far as the provider calls them.
