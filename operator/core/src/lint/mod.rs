//! What is checked of each write before it goes out, for every owner: the table, and the checks that it names. What only one kind of
//! owner may do, that owner says. The checks look at the snapshot alone: how something was decided they do not know.

pub mod checks;
pub mod table;
