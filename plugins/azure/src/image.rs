//! Images: the three forms that Azure has for them, as one text and back. Calls nothing.
//!
//! | form | example |
//! |---|---|
//! | id of an image or of a version in a gallery | `/subscriptions/S/resourceGroups/R/providers/Microsoft.Compute/galleries/G/images/I/versions/1.0.0` |
//! | community or shared gallery | `/communityGalleries/G/images/I/versions/1.0.0`, `/sharedGalleries/G/images/I/versions/1.0.0` |
//! | marketplace | `publisher:offer:sku:version`, as `az vm image list` writes a URN |

use numo_provider_sdk::{
    Failure,
    failure::invalid,
    serde_json::{Value, json},
};

/// Characters of an image; the longest id of Azure is well below.
const CHARACTERS: usize = 1024;

/// Reads the image of an `imageReference`; none if it names none.
pub fn of_reference(reference: &Value) -> Option<String> {
    let text = |name: &str| {
        reference
            .get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let id = text("id")
        .or_else(|| text("communityGalleryImageId"))
        .or_else(|| text("sharedGalleryImageId"));
    if let Some(id) = id {
        return Some(id.to_owned());
    }
    Some(format!(
        "{}:{}:{}:{}",
        text("publisher")?,
        text("offer")?,
        text("sku")?,
        text("version")?
    ))
}

/// Writes an image as an `imageReference`.
///
/// Errors: it has no form that this cloud knows, or is a marketplace image without a fixed version.
pub fn to_reference(image: &str) -> Result<Value, Failure> {
    let wrong = |found: &str| {
        let found: String = found.chars().take(200).collect();
        invalid(format!(
            "image: found {found:?}, wanted the id of an image (/subscriptions/…), of a version in a community or shared gallery \
             (/communityGalleries/…, /sharedGalleries/…), or publisher:offer:sku:version"
        ))
    };
    let plain = image.chars().all(|letter| letter.is_ascii_graphic());
    if !plain || image.len() > CHARACTERS {
        return Err(wrong(image));
    }
    let has = |prefix: &str| {
        let start = image.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix)) && image.len() > prefix.len()
    };
    if has("/subscriptions/") {
        return Ok(json!({ "id": image }));
    }
    if has("/communityGalleries/") {
        return Ok(json!({ "communityGalleryImageId": image }));
    }
    if has("/sharedGalleries/") {
        return Ok(json!({ "sharedGalleryImageId": image }));
    }
    let parts: Vec<&str> = image.split(':').collect();
    let [publisher, offer, sku, version] = parts.as_slice() else {
        return Err(wrong(image));
    };
    if parts.iter().any(|part| part.is_empty() || part.contains('/')) {
        return Err(wrong(image));
    }
    if version.eq_ignore_ascii_case("latest") {
        return Err(invalid(format!(
            "image: found {image:?}, wanted a version: latest is another image tomorrow, and no node would be seen to have the old one"
        )));
    }
    Ok(json!({ "publisher": publisher, "offer": offer, "sku": sku, "version": version }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_goes_there_and_back() {
        for image in [
            "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/images/i",
            "/CommunityGalleries/g/images/i/versions/1.0.0",
            "/sharedGalleries/g/images/i/versions/1.0.0",
            "canonical:ubuntu:server:24.04.1",
        ] {
            assert_eq!(
                of_reference(&to_reference(image).unwrap()).as_deref(),
                Some(image)
            );
        }
        assert_eq!(
            of_reference(&json!({"publisher": "p", "exactVersion": "1"})),
            None
        );
        assert_eq!(of_reference(&json!([])), None);
    }

    #[test]
    fn another_form_is_refused() {
        for wrong in [
            "",
            "a:b:c",
            "a:b:c:d:e",
            "a:b::d",
            "a:b:c:latest",
            "/subscriptions/",
            "ami-1",
            "a b:c:d:e",
            "é:b:c:d",
        ] {
            assert!(
                to_reference(wrong).unwrap_err().message.contains("image: found"),
                "{wrong}"
            );
        }
    }
}
