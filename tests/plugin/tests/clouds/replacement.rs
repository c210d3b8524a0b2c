//! The steps of a replacement, the same whether a provider answers natively or as a component.

use crate::sandbox::Sandbox;
use numo_clouds::native;
use numo_plugin::provider::{
    Ask, Creation, Failed, Failure, FailureCode, Group, MachineState, Made, Pending, Said,
};
use numo_provider_sdk as sdk;
use sdk::{
    Provider,
    fake::{NOW, Store, World},
};
use serde_json::Value;
use std::net::SocketAddr;

/// Questions until something has to be done.
const PATIENCE: usize = 60;

/// Which machine is replaced, and by what.
pub struct Plan {
    /// Uid of the cluster.
    pub uid: &'static str,
    /// The group.
    pub group: String,
    /// The image that it gets.
    pub image: String,
    /// The machine that goes.
    pub old: String,
    /// The request of the machine that comes.
    pub request: &'static str,
}

type Natively = fn(&World, &Ask) -> Result<Said, Failed>;

enum Side {
    Native(Natively, Box<World>),
    Sandbox(Box<Sandbox>),
}

/// Questions to a provider and what it said.
pub struct Talk {
    side: Side,
    /// Seconds.
    now: u64,
    /// Every answer.
    pub said: Vec<Result<Said, Failed>>,
}

impl Talk {
    /// With the provider as plain functions.
    pub fn natively(natively: Natively, address: SocketAddr, config: &Value) -> Self {
        let world = World {
            cloud: Some(Box::new(native(address))),
            config_json: config.to_string(),
            ..World::default()
        };
        Self::with(Side::Native(natively, Box::new(world)))
    }

    /// With the provider as plain functions, whose machines are objects of a cluster.
    pub fn among(natively: Natively, objects: impl Store + 'static, config: &Value) -> Self {
        let world = World {
            objects: Some(Box::new(objects)),
            config_json: config.to_string(),
            ..World::default()
        };
        Self::with(Side::Native(natively, Box::new(world)))
    }

    /// With the provider as a component.
    pub fn sandboxed(sandbox: Sandbox) -> Self {
        Self::with(Side::Sandbox(Box::new(sandbox)))
    }

    fn with(side: Side) -> Self {
        Self {
            side,
            now: NOW,
            said: Vec::new(),
        }
    }

    /// Asks.
    pub async fn ask(&mut self, ask: Ask) -> Result<Said, Failed> {
        let said = match &mut self.side {
            Side::Native(natively, world) => {
                world.now = self.now;
                natively(world, &ask)
            }
            Side::Sandbox(sandbox) => sandbox.ask(ask, self.now).await,
        };
        self.said.push(said.clone());
        said
    }

    async fn well(&mut self, ask: Ask) -> Said {
        match self.ask(ask.clone()).await {
            Ok(said) => said,
            Err(failed) => panic!("{ask:?}: {failed}"),
        }
    }

    /// As much time goes by as was asked for.
    fn wait(&mut self, pending: &Pending) {
        self.now += u64::from(pending.retry_after_seconds);
    }

    /// Requests that the component sent to the cloud.
    pub fn sent(&self) -> usize {
        match &self.side {
            Side::Native(..) => 0,
            Side::Sandbox(sandbox) => sandbox.sent(),
        }
    }

    /// Every line that it wrote.
    pub fn lines(&self) -> Vec<String> {
        match &self.side {
            Side::Native(_, world) => world.lines.borrow().clone(),
            Side::Sandbox(sandbox) => sandbox.lines(),
        }
    }
}

/// A whole replacement, from the list of groups to the end of the old machine.
pub async fn replace(talk: &mut Talk, plan: &Plan) -> Made {
    let (group_id, old) = (plan.group.clone(), plan.old.clone());
    let uid = plan.uid.to_owned();
    let Said::Groups(groups) = talk.well(Ask::Groups { uid }).await else {
        panic!("wanted groups, found {:?}", talk.said);
    };
    let mut groups = groups.iter();
    let found = groups.any(|group| group.group_id == group_id && !group.is_control_plane);
    assert!(found, "{:?}", talk.said);

    let image = Said::Text(plan.image.clone());
    let ask_image = Ask::GroupImage {
        group_id: group_id.clone(),
    };
    assert_ne!(talk.well(ask_image.clone()).await, image);
    until_set(talk, plan).await;
    assert_eq!(talk.well(ask_image).await, image);

    let find = Ask::Find {
        group_id: group_id.clone(),
        request_id: plan.request.to_owned(),
    };
    assert_eq!(talk.well(find.clone()).await, Said::Found(None));
    let made = until_created(talk, plan).await;
    let provider_id = made.provider_id.clone();
    until(talk, &provider_id, MachineState::Ready).await;
    let image_of_new = Ask::NodeImage {
        provider_id: provider_id.clone(),
    };
    assert_eq!(talk.well(image_of_new).await, image);
    let group_of_new = Ask::GroupOf { provider_id };
    assert_eq!(talk.well(group_of_new).await, Said::Text(group_id));
    assert_eq!(talk.well(find).await, Said::Found(Some(made.clone())));

    let delete = Ask::Delete {
        provider_id: old.clone(),
    };
    assert_eq!(talk.well(delete.clone()).await, Said::Done(None));
    until(talk, &old, MachineState::Terminated).await;
    assert_eq!(
        talk.well(delete).await,
        Said::Done(None),
        "what is gone is deleted"
    );
    made
}

async fn until_set(talk: &mut Talk, plan: &Plan) {
    let mut token = None;
    for _ in 0..PATIENCE {
        let ask = Ask::SetGroupImage {
            group_id: plan.group.clone(),
            image: plan.image.clone(),
            token: token.take(),
        };
        match talk.well(ask).await {
            Said::Done(None) => return,
            Said::Done(Some(pending)) => {
                talk.wait(&pending);
                token = Some(pending.token);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the image is not set: {:?}", talk.said.last());
}

async fn until_created(talk: &mut Talk, plan: &Plan) -> Made {
    let mut token = None;
    for _ in 0..PATIENCE {
        let ask = Ask::Create {
            group_id: plan.group.clone(),
            request_id: plan.request.to_owned(),
            token: token.take(),
        };
        match talk.well(ask).await {
            Said::Creation(Creation::Created(made)) => return made,
            Said::Creation(Creation::Pending(pending)) => {
                talk.wait(&pending);
                token = Some(pending.token);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("no machine: {:?}", talk.said.last());
}

async fn until(talk: &mut Talk, provider_id: &str, wanted: MachineState) {
    for _ in 0..PATIENCE {
        let provider_id = provider_id.to_owned();
        if talk.well(Ask::State { provider_id }).await == Said::State(wanted) {
            return;
        }
    }
    panic!("{provider_id} is not {wanted:?}: {:?}", talk.said.last());
}

/// Asks a provider as plain functions, in the words of the host.
pub fn ask_natively<P: Provider>(world: &World, ask: &Ask) -> Result<Said, Failed> {
    let said = match ask {
        Ask::NodeImage { provider_id } => P::node_image(world, provider_id).map(Said::Text),
        Ask::GroupOf { provider_id } => P::scaling_group_id(world, provider_id).map(Said::Text),
        Ask::Create {
            group_id,
            request_id,
            token,
        } => {
            let said = P::create_node(world, group_id, request_id, token.as_deref());
            said.map(|creation| Said::Creation(created(creation)))
        }
        Ask::Find { group_id, request_id } => {
            P::find_node(world, group_id, request_id).map(|found| Said::Found(found.map(made)))
        }
        Ask::Delete { provider_id } => P::delete_node(world, provider_id).map(|()| Said::Done(None)),
        Ask::State { provider_id } => P::node_state(world, provider_id).map(|one| Said::State(state(one))),
        Ask::GroupImage { group_id } => P::group_image(world, group_id).map(Said::Text),
        Ask::SetGroupImage {
            group_id,
            image,
            token,
        } => {
            let said = P::set_group_image(world, group_id, image, token.as_deref());
            said.map(|awaited| Said::Done(awaited.map(pending)))
        }
        Ask::Groups { uid } => {
            let said = P::groups(world, uid);
            said.map(|groups| Said::Groups(groups.into_iter().map(group).collect()))
        }
    };
    said.map_err(|failure| Failed::Said(failed(failure)))
}

fn made(node: sdk::CreatedNode) -> Made {
    Made {
        node: node.node_name,
        provider_id: node.provider_id,
    }
}

fn pending(pending: sdk::Pending) -> Pending {
    Pending {
        token: pending.token,
        retry_after_seconds: pending.retry_after_seconds,
        message: pending.message,
    }
}

fn created(creation: sdk::Creation) -> Creation {
    match creation {
        sdk::Creation::Created(node) => Creation::Created(made(node)),
        sdk::Creation::Pending(awaited) => Creation::Pending(pending(awaited)),
    }
}

fn group(group: sdk::ScalingGroup) -> Group {
    Group {
        name: group.name,
        node_group_name: group.node_group_name,
        group_id: group.group_id,
        autoscaling_group_name: group.autoscaling_group_name,
        is_control_plane: group.role == sdk::NodeRole::ControlPlane,
    }
}

fn state(state: sdk::NodeState) -> MachineState {
    match state {
        sdk::NodeState::Unknown => MachineState::Unknown,
        sdk::NodeState::Creating => MachineState::Creating,
        sdk::NodeState::Ready => MachineState::Ready,
        sdk::NodeState::Stopped => MachineState::Stopped,
        sdk::NodeState::Terminating => MachineState::Terminating,
        sdk::NodeState::Terminated => MachineState::Terminated,
        sdk::NodeState::Failed => MachineState::Failed,
    }
}

fn failed(failure: sdk::Failure) -> Failure {
    let code = match failure.code {
        sdk::FailureCode::Invalid => FailureCode::Invalid,
        sdk::FailureCode::NotFound => FailureCode::NotFound,
        sdk::FailureCode::Denied => FailureCode::Denied,
        sdk::FailureCode::Exhausted => FailureCode::Exhausted,
        sdk::FailureCode::Throttled => FailureCode::Throttled,
        sdk::FailureCode::Unavailable => FailureCode::Unavailable,
        sdk::FailureCode::Other => FailureCode::Other,
    };
    Failure {
        code,
        message: failure.message,
        retry_after_seconds: failure.retry_after_seconds,
    }
}
