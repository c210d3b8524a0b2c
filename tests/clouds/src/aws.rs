//! EC2 and Auto Scaling (Query API), as far as the provider calls them.
