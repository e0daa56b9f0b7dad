//! The recipes that come with usher: the files in `recipes/`, in the format of [`super::format`].

use std::sync::{Arc, LazyLock};

use super::Recipe;
use crate::settings::strict_yaml;

/// One file of recipes.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    pub file: &'static str,
    pub text: &'static str,
}

macro_rules! files {
    ($($name:literal),*) => {
        [$(Builtin { file: $name, text: include_str!(concat!("../../recipes/", $name)) }),*]
    };
}

/// In the order in which they are tried.
const FILES: [Builtin; 10] = files![
    "istio.yaml",
    "linkerd.yaml",
    "consul.yaml",
    "kuma.yaml",
    "other-meshes.yaml",
    "databases.yaml",
    "helpers.yaml",
    "logs.yaml",
    "envoy.yaml",
    "self-ending.yaml"
];

/// The built-in recipes, in the order in which they are tried.
pub fn builtin() -> Arc<[Recipe]> {
    static RECIPES: LazyLock<Arc<[Recipe]>> = LazyLock::new(|| {
        FILES
            .iter()
            .flat_map(|builtin| {
                // The files are part of the program, and a test parses them.
                strict_yaml::parse::<Vec<Recipe>>(builtin.file, builtin.text)
                    .unwrap_or_else(|error| unreachable!("{error}"))
            })
            .collect()
    });
    Arc::clone(&RECIPES)
}
