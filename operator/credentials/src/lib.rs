//! Signs requests to the APIs of clouds with credentials from mounted files. A component names a credential and never sees a secret. This
//! crate opens no connection: who asks for a token does so through a trait.
