//! Objects of a cluster in memory, with the Cluster API controllers that make and delete Machines.
