//! A provider whose machines and groups are ConfigMaps in a namespace, for demos and tests: whoever plays the machines reads them, makes
//! Nodes, and takes away what is being deleted. The name of the ConfigMap of a machine is the id of the request that made it: asked twice
//! it is made once.
//!
//! Keys of `data`: of a machine `image`, `group`, `node` and `state`; of a group `image`, `role`, `autoscaler` and `name`.

use super::{
    answer::{Called, ProviderAnswer, Unanswered},
    machines::{CALL_PATIENCE, Machines, cut_off, within},
};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use numo_api::{machines::CspState, marks::FIELD_MANAGER};
use numo_core::observed::{FleetQuestion, GroupFacts, MachineFacts, MadeMachine};
use serde_json::{Value, json};

/// Label of the ConfigMaps: `machine` or `group`.
const PART: &str = "numo.openshift-optional.skrzypek.io/sim";
/// What ids of machines begin with.
const MACHINE: &str = "sim:///";

/// The ConfigMaps of a namespace.
#[derive(Clone, Debug)]
pub struct Sim {
    maps: Api<ConfigMap>,
}

fn data(map: &ConfigMap, key: &str) -> String {
    let data = map.data.as_ref().and_then(|data| data.get(key));
    data.cloned().unwrap_or_default()
}

/// Name of the ConfigMap of a machine.
///
/// Errors: the id is none of this provider's.
fn machine(provider_id: &str) -> Result<&str, String> {
    let name = provider_id.strip_prefix(MACHINE);
    name.ok_or_else(|| format!("found machine {provider_id:?}, wanted one that begins with {MACHINE}"))
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl Sim {
    /// The ConfigMaps of this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            maps: Api::namespaced(client, namespace),
        }
    }

    async fn get(&self, name: &str) -> Result<Option<ConfigMap>, String> {
        self.maps.get_opt(name).await.map_err(|error| words(&error))
    }

    /// Image and group of a machine.
    pub async fn facts(&self, provider_id: &str) -> Result<MachineFacts, String> {
        let found = self.get(machine(provider_id)?).await?;
        let found = found.ok_or_else(|| format!("there is no machine {provider_id}"))?;
        Ok(MachineFacts {
            image: data(&found, "image"),
            group_id: data(&found, "group"),
        })
    }

    /// State of a machine; of one that is gone `Terminated`.
    pub async fn state(&self, provider_id: &str) -> Result<CspState, String> {
        let Some(found) = self.get(machine(provider_id)?).await? else {
            return Ok(CspState::Terminated);
        };
        let state = serde_json::from_value(Value::String(data(&found, "state")));
        Ok(state.unwrap_or(CspState::Unknown))
    }

    /// Image of new machines of a group.
    pub async fn image(&self, group_id: &str) -> Result<String, String> {
        let found = self.get(group_id).await?;
        let found = found.ok_or_else(|| format!("there is no group {group_id}"))?;
        Ok(data(&found, "image"))
    }

    /// All groups.
    pub async fn groups(&self) -> Result<Vec<GroupFacts>, String> {
        let params = ListParams::default().labels(&format!("{PART}=group"));
        let found = self.maps.list(&params).await.map_err(|error| words(&error))?;
        let group = |map: &ConfigMap| GroupFacts {
            name: map.name_any(),
            node_group_name: data(map, "name"),
            group_id: map.name_any(),
            autoscaler_group_name: data(map, "autoscaler"),
            is_control_plane: data(map, "role") == "ControlPlane",
        };
        Ok(found.items.iter().map(group).collect())
    }

    /// The machine that a request has made.
    pub async fn find(&self, request: &str) -> Result<Option<MadeMachine>, String> {
        let found = self.get(request).await?;
        Ok(found.map(|map| made(&map)))
    }

    async fn try_create(&self, group_id: &str, request: &str) -> Result<MadeMachine, String> {
        if let Some(found) = self.find(request).await? {
            return Ok(found);
        }
        let image = self.image(group_id).await?;
        let node = format!("{group_id}-{}", request.chars().rev().take(6).collect::<String>());
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": request, "labels": {PART: "machine"}},
            "data": {"image": image, "group": group_id, "node": node, "state": CspState::Creating.name()},
        });
        let map: ConfigMap = serde_json::from_value(body).map_err(|error| error.to_string())?;
        match self.maps.create(&PostParams::default(), &map).await {
            Ok(map) => Ok(made(&map)),
            // Whoever was asked before has made it.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let found = self.find(request).await?;
                found.ok_or_else(|| format!("machine {request} was made and is gone"))
            }
            Err(error) => Err(words(&error)),
        }
    }

    /// Sets a value of a machine or a group; one that is gone is no failure. A stranger's ConfigMap of that name stays as it is.
    async fn set(&self, name: &str, part: &str, (key, value): (&str, &str)) -> Called<()> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = match serde_json::from_value(operations(part, (key, value))) {
            Ok(patch) => Patch::<()>::Json(patch),
            Err(error) => return Called::refused(error.to_string()),
        };
        match self.maps.patch(name, &params, &patch).await {
            Ok(_) => Called::Done(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Called::Done(()),
            Err(kube::Error::Api(status)) if status.code == 422 => Called::refused(format!(
                "ConfigMap {name}: found no data or another label {PART}, wanted {part:?}"
            )),
            Err(error) => Called::refused(words(&error)),
        }
    }
}

#[async_trait]
impl Machines for Sim {
    async fn answer(&self, question: &FleetQuestion) -> ProviderAnswer {
        match question {
            FleetQuestion::Facts { provider_id } => {
                ProviderAnswer::Facts(heard(self.facts(provider_id)).await)
            }
            FleetQuestion::State { provider_id } => {
                ProviderAnswer::State(heard(self.state(provider_id)).await)
            }
            FleetQuestion::GroupImage { group_id } => {
                ProviderAnswer::Image(heard(self.image(group_id)).await)
            }
            FleetQuestion::Groups => ProviderAnswer::Groups(heard(self.groups()).await),
            FleetQuestion::Find { request, .. } => ProviderAnswer::Found(heard(self.find(request)).await),
        }
    }

    async fn create(&self, group_id: &str, request: &str) -> Called<MadeMachine> {
        let created = async {
            let made = self.try_create(group_id, request).await;
            made.map_or_else(Called::refused, Called::Done)
        };
        within(created).await
    }

    /// Whoever plays the machine takes it away.
    async fn delete(&self, provider_id: &str) -> Called<()> {
        let name = match machine(provider_id) {
            Ok(name) => name,
            Err(words) => return Called::refused(words),
        };
        let goes = ("state", CspState::Terminating.name());
        within(self.set(name, "machine", goes)).await
    }

    async fn set_image(&self, group_id: &str, image: &str) -> Called<()> {
        let set = async {
            let done = self.set(group_id, "group", ("image", image)).await;
            match self.get(group_id).await {
                Ok(None) => Called::refused(format!("there is no group {group_id}")),
                _ => done,
            }
        };
        within(set).await
    }
}

/// Sets a value, if the ConfigMap is part of what is said.
fn operations(part: &str, (key, value): (&str, &str)) -> Value {
    let label = PART.replace('/', "~1");
    json!([
        {"op": "test", "path": format!("/metadata/labels/{label}"), "value": part},
        {"op": "add", "path": format!("/data/{key}"), "value": value},
    ])
}

async fn heard<T>(asked: impl Future<Output = Result<T, String>>) -> Result<T, Unanswered> {
    let said = tokio::time::timeout(CALL_PATIENCE, asked).await;
    Ok(said.unwrap_or_else(|_| Err(cut_off(CALL_PATIENCE)))?)
}

fn made(map: &ConfigMap) -> MadeMachine {
    MadeMachine {
        node: data(map, "node"),
        provider_id: format!("{MACHINE}{}", map.name_any()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    /// A person may name whatever they like in a PendingNode or a ScalingGroup: numo's own ConfigMaps are in that namespace, too.
    #[tokio::test]
    async fn a_strangers_map_stays_as_it_is() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let seen = sent.clone();
        let refusing = tower::service_fn(move |request: Request<Body>| {
            let seen = seen.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap_or_default();
                seen.lock().expect("no panic").push(body);
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "message": "", "reason": "Invalid"});
                let answer = Response::builder()
                    .status(422)
                    .body(Body::from(status.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        let sim = Sim::new(Client::new(refusing, "numo"), "numo");
        let told = [
            (sim.delete("sim:///numo-config").await, "machine"),
            (sim.set("numo-config", "group", ("image", "v2")).await, "group"),
        ];
        for ((called, part), body) in told.into_iter().zip(sent.lock().expect("no panic").iter()) {
            let Called::Refused { words, .. } = called else {
                panic!("{called:?}")
            };
            assert!(
                words.contains("ConfigMap numo-config") && words.contains(part),
                "{words}"
            );
            let body: Value = serde_json::from_slice(body).expect("a patch");
            let label = "/metadata/labels/numo.openshift-optional.skrzypek.io~1sim";
            assert_eq!(body[0], json!({"op": "test", "path": label, "value": part}));
        }
        assert_eq!(sent.lock().expect("no panic").len(), 2);
    }

    #[test]
    fn an_id_of_another_provider_is_refused_in_words() {
        assert_eq!(machine("sim:///numo-1"), Ok("numo-1"));
        let refused = machine("aws:///eu-1a/i-1").unwrap_err();
        assert!(
            refused.contains("found machine") && refused.contains("wanted"),
            "{refused}"
        );
    }
}
