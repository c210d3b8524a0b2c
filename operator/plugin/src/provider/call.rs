//! One question to a provider, under the limits of its configuration. What the answer means for machines is not decided here.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::Store;

use super::{
    answer::{self, Creation, Failed, Said},
    bindings::{Provider as Guest, exports::numo::provider::machines as wit},
    lent::Lent,
    load::{Loaded, MachineProvider},
};
use crate::{
    call::{bounded, on_own_runtime, store, turn},
    engine::Turn,
    host::Sandbox,
    limits::{Limits, RuleLimits},
    reason::{Reason, Refused},
    services::Services,
};

/// How long a call may take unless the configuration says otherwise (seconds).
const CALL_SECONDS: u64 = 25;
/// The tenant of providers: neither do rules hold them up, nor they rules.
const TENANT: &str = "provider of machines";

/// What a provider is asked. `wit/provider`, interface `machines`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Image of a machine.
    NodeImage {
        /// The machine.
        provider_id: String,
    },
    /// Group of a machine.
    GroupOf {
        /// The machine.
        provider_id: String,
    },
    /// Make the machine of a request, or find it.
    Create {
        /// The group.
        group_id: String,
        /// The request.
        request_id: String,
        /// What it gave with its last answer.
        token: Option<String>,
    },
    /// Find the machine of a request.
    Find {
        /// The group.
        group_id: String,
        /// The request.
        request_id: String,
    },
    /// Delete a machine.
    Delete {
        /// The machine.
        provider_id: String,
    },
    /// State of a machine.
    State {
        /// The machine.
        provider_id: String,
    },
    /// Image of new machines.
    GroupImage {
        /// The group.
        group_id: String,
    },
    /// Have new machines get an image.
    SetGroupImage {
        /// The group.
        group_id: String,
        /// The image.
        image: String,
        /// What it gave with its last answer.
        token: Option<String>,
    },
    /// All groups of the cluster with this uid.
    Groups {
        /// The uid.
        uid: String,
    },
}

/// A turn that was waited for: what is asked in it begins at once.
#[derive(Debug)]
pub struct Place {
    turn: Turn,
    limits: Limits,
}

impl MachineProvider {
    /// Asks the provider, with what it is lent. The time begins when it is its turn.
    ///
    /// Errors: the provider's own words, or why the host let it say nothing.
    pub async fn ask(&self, ask: Ask, limits: &RuleLimits, lent: (Lent, Services)) -> Result<Said, Failed> {
        let place = self.place(limits).await?;
        self.ask_in(place, ask, lent).await
    }

    /// Waits for its turn, for as long as whoever waits likes: nothing was asked yet.
    ///
    /// Errors: no call may have these limits.
    pub async fn place(&self, limits: &RuleLimits) -> Result<Place, Failed> {
        let engine = &self.0.engine;
        let mut asked = limits.clone();
        asked.evaluation_seconds.get_or_insert(CALL_SECONDS);
        let limits = engine.limits.with(&asked, &engine.ceilings);
        let limits = limits.map_err(|error| Refused::new(Reason::TooLarge, error.to_string()))?;
        let turn = turn(engine, TENANT, limits.memory_bytes).await;
        Ok(Place { turn, limits })
    }

    /// The same as [`Self::ask`] once it is its turn.
    ///
    /// Errors: as those of [`Self::ask`].
    pub async fn ask_in(
        &self,
        place: Place,
        ask: Ask,
        (lent, services): (Lent, Services),
    ) -> Result<Said, Failed> {
        let engine = &self.0.engine;
        let (loaded, Place { turn, limits }) = (self.0.clone(), place);
        let work = async move {
            let time = Duration::from_secs(limits.evaluation_seconds);
            let limits = (Arc::new(limits), loaded.inspection.state_bytes);
            let granted = Some((Arc::new(lent.grants.reads()), services));
            let mut store = store(&loaded.engine, limits, Instant::now() + time, granted);
            store.data_mut().lend(lent);
            let said = one(&loaded, &mut store, time, ask).await;
            Ok(said)
        };
        Box::pin(on_own_runtime(engine, turn, work)).await?
    }
}

async fn one(loaded: &Loaded, store: &mut Store<Sandbox>, time: Duration, ask: Ask) -> Result<Said, Failed> {
    let answered = bounded(&loaded.engine, store, time, async |store| {
        let guest = loaded.pre.instantiate_async(&mut *store).await?;
        of_machine(&guest, store, ask).await
    });
    answered.await?.and_then(Raw::checked)
}

/// What the component said, before anything of it is believed.
enum Raw {
    Text(&'static str, String),
    Creation(wit::Creation),
    Found(Option<wit::CreatedNode>),
    Done(Option<wit::Pending>),
    State(wit::NodeState),
    Groups(Vec<wit::ScalingGroup>),
}

impl Raw {
    fn checked(self) -> Result<Said, Failed> {
        Ok(match self {
            Self::Text(field, text) => Said::Text(answer::id(field, text)?),
            Self::Creation(wit::Creation::Created(made)) => {
                Said::Creation(Creation::Created(answer::made(made)?))
            }
            Self::Creation(wit::Creation::Pending(pending)) => {
                Said::Creation(Creation::Pending(answer::pending(pending)?))
            }
            Self::Found(found) => Said::Found(found.map(answer::made).transpose()?),
            Self::Done(pending) => Said::Done(pending.map(answer::pending).transpose()?),
            Self::State(state) => Said::State(answer::state(state)),
            Self::Groups(groups) => Said::Groups(answer::groups(groups)?),
        })
    }
}

type Answered = wasmtime::Result<Result<Raw, Failed>>;

/// Questions about one machine; those about groups are below.
async fn of_machine(guest: &Guest, store: &mut Store<Sandbox>, ask: Ask) -> Answered {
    let machines = guest.numo_provider_machines();
    let said = match ask {
        Ask::NodeImage { provider_id } => {
            let said = machines.call_get_node_image(store, &provider_id).await?;
            said.map(|text| Raw::Text("image", text))
        }
        Ask::GroupOf { provider_id } => {
            let said = machines.call_get_scaling_group_id(store, &provider_id).await?;
            said.map(|text| Raw::Text("group-id", text))
        }
        Ask::Create {
            group_id,
            request_id,
            token,
        } => {
            let said = machines.call_create_node(store, &group_id, &request_id, token.as_deref());
            said.await?.map(Raw::Creation)
        }
        Ask::Find { group_id, request_id } => {
            let said = machines.call_find_node(store, &group_id, &request_id).await?;
            said.map(Raw::Found)
        }
        Ask::Delete { provider_id } => {
            let said = machines.call_delete_node(store, &provider_id).await?;
            said.map(|()| Raw::Done(None))
        }
        Ask::State { provider_id } => {
            let said = machines.call_get_node_state(store, &provider_id).await?;
            said.map(Raw::State)
        }
        of_groups => return of_group(guest, store, of_groups).await,
    };
    Ok(said.map_err(|failure| answer::failure(&failure)))
}

async fn of_group(guest: &Guest, store: &mut Store<Sandbox>, ask: Ask) -> Answered {
    let machines = guest.numo_provider_machines();
    let said = match ask {
        Ask::GroupImage { group_id } => {
            let said = machines.call_get_scaling_group_image(store, &group_id).await?;
            said.map(|text| Raw::Text("image", text))
        }
        Ask::SetGroupImage {
            group_id,
            image,
            token,
        } => {
            let said = machines.call_set_scaling_group_image(store, &group_id, &image, token.as_deref());
            said.await?.map(Raw::Done)
        }
        Ask::Groups { uid } => {
            let said = machines.call_list_scaling_groups(store, &uid).await?;
            said.map(Raw::Groups)
        }
        // Those about machines are above.
        other => {
            let message = format!("nobody asks {other:?} here");
            return Ok(Err(Refused::new(Reason::RuleError, message).into()));
        }
    };
    Ok(said.map_err(|failure| answer::failure(&failure)))
}
