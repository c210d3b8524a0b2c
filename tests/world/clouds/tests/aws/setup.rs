//! A cluster with two groups in the local cloud, and the provider that is asked about it. Asserts nothing but what every test needs.

use numo_clouds::{
    Served,
    aws::{Cloud, Group, Instance, Version},
    native,
};
use numo_provider_sdk::{
    CreatedNode, Creation, Error, ErrorCode, Failure, Provider,
    fake::{NOW, World},
    host::{Request, Response},
};
use provider_aws::Aws;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// The image that groups begin with.
pub const OLD: &str = "ami-0000000000000001a";
/// The image that they get.
pub const NEW: &str = "ami-0000000000000002b";
/// Settings that are enough.
pub const SETTINGS: &str = r#"{"region": "eu-central-1"}"#;
/// The group that machines are replaced in.
pub const WORKERS: &str = "Workers-A";
/// A group of another cluster.
pub const STRANGE: &str = "another-cluster";

/// How an answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The call never came.
    Before,
    /// The call was carried out.
    After,
}

/// The cloud, its server, and the clock.
pub struct Aws1 {
    pub cloud: Cloud,
    served: Served,
    pub now: Cell<u64>,
    /// The call (from 0) whose answer is lost, and how. Once.
    pub loses: Rc<Cell<Option<(usize, Lost)>>>,
    sent: Rc<Cell<usize>>,
    pub settings: RefCell<String>,
    pub lines: RefCell<Vec<String>>,
}

fn sends(
    native: impl Fn(&Request) -> Result<Response, Error>,
    sent: &Cell<usize>,
    loses: &Cell<Option<(usize, Lost)>>,
    request: &Request,
) -> Result<Response, Error> {
    let number = sent.get();
    sent.set(number + 1);
    let Some((at, how)) = loses.get().filter(|(at, _)| *at <= number) else {
        return native(request);
    };
    assert_eq!(at, number, "a call after one whose answer was lost");
    if how == Lost::After {
        native(request)?;
    }
    Err(Error {
        code: ErrorCode::Unavailable,
        message: "no answer".to_owned(),
        details: Vec::new(),
    })
}

impl Aws1 {
    /// Two groups of this cluster (workers in three zones with three machines, a control plane in one subnet), and one of another.
    pub fn new() -> Self {
        let cloud = Cloud::new();
        let served = cloud.serve().unwrap();
        fill(&cloud);
        Self {
            cloud,
            served,
            now: Cell::new(NOW),
            loses: Rc::default(),
            sent: Rc::default(),
            settings: RefCell::new(SETTINGS.to_owned()),
            lines: RefCell::default(),
        }
    }

    /// Calls that the provider has sent.
    pub fn sent(&self) -> usize {
        self.sent.get()
    }

    /// One call of the provider: an instance of its own, and a host of its own.
    pub fn call<T>(&self, ask: impl FnOnce(&World) -> T) -> T {
        let native = native(self.served.address());
        let (sent, loses) = (Rc::clone(&self.sent), Rc::clone(&self.loses));
        let world = World {
            cloud: Some(Box::new(move |request| sends(&native, &sent, &loses, request))),
            config_json: self.settings.borrow().clone(),
            now: self.now.get(),
            ..World::default()
        };
        let answer = ask(&world);
        self.lines.borrow_mut().extend(world.lines.take());
        answer
    }

    /// One call for a machine.
    pub fn ask(&self, group: &str, request: &str, token: Option<&str>) -> Result<Creation, Failure> {
        self.call(|world| Aws::create_node(world, group, request, token))
    }

    /// Calls for a machine until it is made, as numo does: with the token, after the time that was asked for.
    pub fn create(&self, group: &str, request: &str) -> Result<CreatedNode, Failure> {
        self.create_from(group, request, None)
    }

    /// The same from some token on.
    pub fn create_from(
        &self,
        group: &str,
        request: &str,
        token: Option<String>,
    ) -> Result<CreatedNode, Failure> {
        let mut token = token;
        for _ in 0..30 {
            match self.ask(group, request, token.as_deref())? {
                Creation::Created(node) => return Ok(node),
                Creation::Pending(pending) => {
                    assert!(pending.token.len() <= 4096 && !pending.message.is_empty());
                    assert!(pending.retry_after_seconds > 0, "{}", pending.message);
                    self.now
                        .set(self.now.get() + u64::from(pending.retry_after_seconds));
                    token = Some(pending.token);
                }
            }
        }
        panic!("not made after 30 calls");
    }

    /// Ids of all instances that live.
    pub fn living(&self) -> Vec<String> {
        let state = self.cloud.state();
        let living = state.instances.iter().filter(|instance| instance.lives());
        living.map(|instance| instance.id.clone()).collect()
    }

    /// Actions that were called, in order.
    pub fn actions(&self) -> Vec<String> {
        let state = self.cloud.state();
        state.calls.iter().map(|call| call.action.clone()).collect()
    }

    /// The providerID of an instance.
    pub fn provider_id(&self, id: &str) -> String {
        let zone = self.cloud.state().instance(id).unwrap().zone.clone();
        format!("aws:///{zone}/{id}")
    }

    /// A member of the group.
    pub fn member(&self, group: &str) -> String {
        self.cloud.state().members(group)[0].id.clone()
    }
}

/// The instance of a node.
pub fn id_of(node: &CreatedNode) -> String {
    node.provider_id.rsplit('/').next().unwrap().to_owned()
}

/// A tag that instances of the group get.
pub fn tag(key: &str, value: &str) -> (String, String, bool) {
    (key.to_owned(), value.to_owned(), true)
}

fn fill(cloud: &Cloud) {
    let mut state = cloud.state();
    state.fills = true;
    for image in [OLD, NEW] {
        state.images.insert(image.to_owned(), "available".to_owned());
    }
    for zone in ["a", "b", "c"] {
        state
            .subnets
            .insert(format!("subnet-{zone}"), format!("eu-central-1{zone}"));
    }
    for template in ["lt-workers", "lt-control", "lt-other"] {
        let template_entry = state.templates.entry(template.to_owned()).or_default();
        template_entry.default = 1;
        template_entry.versions.push(Version {
            image: Some(OLD.to_owned()),
            kind: Some("m5.large".to_owned()),
            ..Version::default()
        });
    }
    let mut add = |name: &str, template: &str, subnets: &str, uid: &str, role: &str| {
        state.groups.insert(
            name.to_owned(),
            Group {
                min: 1,
                max: 5,
                desired: 3,
                subnets: subnets.to_owned(),
                template: Some((template.to_owned(), "$Default".to_owned())),
                tags: vec![
                    tag("constellation-uid", uid),
                    tag("constellation-role", role),
                    tag("constellation-node-group", &format!("{role}_default")),
                    tag("kubernetes.io/cluster/c1", "owned"),
                ],
                ..Group::default()
            },
        );
        for (at, subnet) in subnets.split(',').cycle().take(3).enumerate() {
            let zone = state.subnets[subnet].clone();
            let id = state.id("i-");
            assert!(at < 3);
            state.instances.push(Instance {
                id,
                state: "running".to_owned(),
                subnet: subnet.to_owned(),
                zone,
                image: OLD.to_owned(),
                group: Some(name.to_owned()),
                lifecycle: "InService".to_owned(),
                ..Instance::default()
            });
        }
    };
    add(
        WORKERS,
        "lt-workers",
        "subnet-a,subnet-b,subnet-c",
        "c1",
        "worker",
    );
    add("control", "lt-control", "subnet-a", "c1", "control-plane");
    add(STRANGE, "lt-other", "subnet-b", "c2", "worker");
}
