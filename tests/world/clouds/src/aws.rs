//! EC2 and Auto Scaling (Query API), as far as the provider calls them, on loopback. Written from the public documentation; never compared
//! with the real cloud. It refuses what the real one would refuse: requests without authorization, of another version, with parameters it
//! does not know.

mod answer;
mod autoscaling;
mod ec2;
pub mod sigv4;
mod state;
mod templates;

pub use answer::Parameters;
pub use state::{Call, Fault, Group, Instance, Keys, State, Version};

use crate::Served;
use answer::{Api, Refused};
use axum::{
    Router,
    body::Bytes,
    extract::State as Shared,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The cloud, as tests and the server share it.
#[derive(Clone, Default)]
pub struct Cloud(Arc<Mutex<State>>);

impl Cloud {
    /// A cloud with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is in it.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves it.
    ///
    /// Errors: there is no port.
    pub fn serve(&self) -> io::Result<Served> {
        let router = Router::new().fallback(serve_one).with_state(self.clone());
        Served::start(router)
    }
}

async fn serve_one(
    Shared(cloud): Shared<Cloud>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut state = cloud.state();
    let Some(api) = api(&headers) else {
        return (StatusCode::NOT_FOUND, "no such host").into_response();
    };
    let parameters = Parameters::read(uri.query().unwrap_or_default(), &body);
    let action = parameters.get("Action").unwrap_or_default().to_owned();
    state.log(api.name(), &action, &parameters);
    let request = sigv4::Signed {
        method: method.as_str(),
        path: uri.path(),
        query: uri.query().unwrap_or_default(),
        headers: &headers,
        body: &body,
    };
    if let Err(refused) = authorize(&state, api, &request) {
        return refused.into_response(api);
    }
    if let Some(fault) = state.fault(&action) {
        return fault.into_response();
    }
    let answered = answer(&mut state, api, &action, &parameters);
    match answered {
        Ok(xml) => (StatusCode::OK, [("content-type", "text/xml;charset=UTF-8")], xml).into_response(),
        Err(refused) => refused.into_response(api),
    }
}

/// Which API a request is for, by its host.
fn api(headers: &HeaderMap) -> Option<Api> {
    let named = ["x-forwarded-host", "host"];
    let mut hosts = named.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    hosts.find_map(|host| match host.split('.').next() {
        Some("ec2") => Some(Api::Ec2),
        Some("autoscaling") => Some(Api::AutoScaling),
        _ => None,
    })
}

/// Whoever signs natively says so in `x-authorization`; a real signature is verified once the cloud has keys.
fn authorize(state: &State, api: Api, request: &sigv4::Signed<'_>) -> Result<(), Refused> {
    if let Some(keys) = &state.keys {
        return sigv4::verify(request, keys, api.name())
            .map_err(|(code, words)| Refused::new(403, &code, &words));
    }
    let has = |name: &str, start: &str| {
        let value = request.headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.starts_with(start))
    };
    if has("x-authorization", "aws-sigv4 ") || has("authorization", "AWS4-HMAC-SHA256 ") {
        return Ok(());
    }
    Err(match api {
        Api::Ec2 => Refused::new(
            401,
            "AuthFailure",
            "AWS was not able to validate the provided access credentials",
        ),
        Api::AutoScaling => Refused::new(
            403,
            "MissingAuthenticationToken",
            "Request is missing Authentication Token",
        ),
    })
}

fn answer(state: &mut State, api: Api, action: &str, parameters: &Parameters) -> Result<String, Refused> {
    if parameters.get("Version") != Some(api.version()) {
        return Err(Refused::new(
            400,
            "InvalidAction",
            "The action is not valid for this version",
        ));
    }
    match (api, action) {
        (Api::Ec2, "RunInstances") => ec2::run(state, parameters),
        (Api::Ec2, "DescribeInstances") => ec2::describe(state, parameters),
        (Api::Ec2, "TerminateInstances") => ec2::terminate(state, parameters),
        (Api::Ec2, "DescribeSubnets") => ec2::subnets(state, parameters),
        (Api::Ec2, "DescribeImages") => ec2::images(state, parameters),
        (Api::Ec2, "DescribeLaunchTemplateVersions") => templates::describe(state, parameters),
        (Api::Ec2, "CreateLaunchTemplateVersion") => templates::create(state, parameters),
        (Api::Ec2, "ModifyLaunchTemplate") => templates::modify(state, parameters),
        (Api::AutoScaling, "DescribeAutoScalingGroups") => autoscaling::describe(state, parameters),
        (Api::AutoScaling, "AttachInstances") => autoscaling::attach(state, parameters),
        (Api::AutoScaling, "TerminateInstanceInAutoScalingGroup") => {
            autoscaling::terminate(state, parameters)
        }
        (Api::AutoScaling, "UpdateAutoScalingGroup") => autoscaling::update(state, parameters),
        _ => Err(Refused::new(
            400,
            "InvalidAction",
            "The action or operation requested is not valid",
        )),
    }
}
