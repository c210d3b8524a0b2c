//! Where there are no node leases, some tests have no subject.

/// The tests that need node leases, and why: left out where there are none.
pub const OF_LEASES: [(&str, &str); 13] = [
    (
        "ask::what_is_asked_is_answered_in_every_format",
        "explain names the lease of a node in flight",
    ),
    (
        "doctor::a_sound_installation_is_found_so",
        "doctor finds the namespace missing, and says so",
    ),
    (
        "leader::a_leader_that_slept_past_its_lease",
        "it makes a RoleBinding in the namespace",
    ),
    (
        "maintenance::a_node_is_kept_in_maintenance_and_put_back",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::a_node_that_is_missing_fails",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::the_older_group_is_served_too",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::two_maintenances_of_a_node_and_a_lease",
        "it looks at the lease of a node in maintenance",
    ),
    (
        "maintenance::what_node_maintenance_operator_left",
        "it makes the lease that the other operator left",
    ),
    (
        "nodes::a_node_in_flight_is_shielded_and_leased",
        "it looks at the lease of a node in flight",
    ),
    (
        "preview::a_run_is_seen_before_it_runs",
        "preview says that the right to leases is missing",
    ),
    (
        "quiet::heartbeats_make_numo_write_nothing",
        "numo looks again and again whether leases can be had",
    ),
    (
        "release::what_is_another_operators_stays",
        "it makes the lease of another operator",
    ),
    (
        "rights::numo_asks_for_nothing_beyond_its_rights",
        "the rights to leases are never used",
    ),
];
