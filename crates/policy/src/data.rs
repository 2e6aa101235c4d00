//! Files in YAML that are no policies, as values of JSON.

use serde_json::{Map, Number, Value};

use super::error::PolicyError;
use super::yaml::{self, YamlNode, YamlValue};

/// Reads a file in YAML, as strictly as a policy: without anchors, tags and duplicate keys. An empty one is null.
///
/// # Errors
/// The fault, with its line.
pub fn read_yaml(text: &[u8], file: &str) -> Result<Value, PolicyError> {
    Ok(yaml::read(text, file)?.map_or(Value::Null, value_of))
}

fn value_of(node: YamlNode) -> Value {
    if node.is_null() {
        return Value::Null;
    }
    match node.value {
        YamlValue::Scalar(text, true) if text == "true" || text == "false" => {
            Value::Bool(text == "true")
        }
        YamlValue::Scalar(text, is_plain) => {
            let number = text.parse::<i64>().ok().filter(|_| is_plain);
            number.map_or(Value::String(text), |number| Number::from(number).into())
        }
        YamlValue::List(nodes) => nodes.into_iter().map(value_of).collect(),
        YamlValue::Map(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|field| (field.key, value_of(field.node)));
            Value::Object(fields.collect::<Map<String, Value>>())
        }
    }
}
