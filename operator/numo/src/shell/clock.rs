//! The API server's time. Every deadline is judged by it, because the clocks of the machines that numo
//! runs on may differ from the cluster's (invariant 11).
//!
//! Source: the `Date` header of each response of the API server itself (RFC 9110), which has whole seconds. What it only passes on from an API
//! server of somebody else's has the clock of that one.

use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll},
};
use tower::{Layer, Service};

/// A difference that whole seconds and a slow response explain (milliseconds); below it the local clock
/// is taken as it is.
const TOLERANCE_MILLISECONDS: i64 = 2500;

/// The API server's time, as the offset of the local clock.
#[derive(Clone, Debug, Default)]
pub struct ServerClock {
    offset_milliseconds: Arc<AtomicI64>,
}

impl ServerClock {
    /// Now, by the API server.
    pub fn now(&self) -> Timestamp {
        #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
        let local = Timestamp::now();
        local + SignedDuration::from_millis(self.offset_milliseconds.load(Ordering::Relaxed))
    }

    /// Learns from the `Date` header of a response.
    pub fn learn(&self, date: &str) {
        let Ok(server) = jiff::fmt::rfc2822::parse(date) else {
            return;
        };
        #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
        let local = Timestamp::now();
        // The header is cut to the second: half a second is the best guess of what was cut.
        let offset = server.timestamp().as_millisecond() + 500 - local.as_millisecond();
        let offset = if offset.abs() <= TOLERANCE_MILLISECONDS {
            0
        } else {
            offset
        };
        self.offset_milliseconds.store(offset, Ordering::Relaxed);
    }
}

/// Paths that no other server answers. Whoever leads or waits to lead asks for a Lease all the time, and every verb for the version first.
const OWN: [&str; 3] = ["/api/", "/version", "/apis/coordination.k8s.io/"];

impl<S> Layer<S> for ServerClock {
    type Service = Learning<S>;

    fn layer(&self, inner: S) -> Learning<S> {
        Learning {
            inner,
            clock: self.clone(),
        }
    }
}

/// A service from whose answers the time is learnt.
#[derive(Clone)]
pub struct Learning<S> {
    inner: S,
    clock: ServerClock,
}

impl<S, B, R> Service<Request<B>> for Learning<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let is_own = OWN.iter().any(|own| path.starts_with(own));
        let clock = is_own.then(|| self.clock.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            let date = answer.headers().get(http::header::DATE);
            if let (Some(clock), Some(date)) = (clock, date.and_then(|date| date.to_str().ok())) {
                clock.learn(date);
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[tokio::test]
    async fn the_time_is_the_api_servers_and_not_that_of_whom_it_passes_on() {
        let clock = ServerClock::default();
        let service = tower::service_fn(async |_: Request<()>| {
            let dated = Response::builder().header(http::header::DATE, "Fri, 01 Jan 2100 00:00:00 GMT");
            Ok::<_, Infallible>(dated.body(()).unwrap())
        });
        let mut learning = clock.layer(service);
        let mut ahead = async |path: &str| {
            let request = Request::builder().uri(path).body(()).unwrap();
            learning.call(request).await.unwrap();
            clock.now() > Timestamp::now() + SignedDuration::from_hours(1)
        };
        for path in [
            "/apis/metrics.k8s.io/v1beta1/nodes",
            "/apis/apps.example.com/v1/things",
        ] {
            assert!(!ahead(path).await, "{path}");
        }
        for path in [
            "/api/v1/nodes",
            "/version",
            "/apis/coordination.k8s.io/v1/namespaces/numo/leases/numo-leader",
        ] {
            assert!(ahead(path).await, "{path}");
            clock.offset_milliseconds.store(0, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_clock_that_is_off_is_corrected_and_a_close_one_is_not() {
        let clock = ServerClock::default();
        let hour_ahead = Timestamp::now() + SignedDuration::from_hours(1);
        clock.learn(&jiff::fmt::rfc2822::to_string(&hour_ahead.to_zoned(jiff::tz::TimeZone::UTC)).unwrap());
        let seen = clock.now().as_second() - Timestamp::now().as_second();
        assert!((3590..=3610).contains(&seen), "{seen}");
        let close = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        clock.learn(&jiff::fmt::rfc2822::to_string(&close).unwrap());
        assert!((clock.now().as_millisecond() - Timestamp::now().as_millisecond()).abs() < 1000);
        clock.learn("not a date");
    }
}
