// Renders Istio's own charts into one List of Kubernetes objects, as JSON on stdout, in the order of creation.
// The argument is an IstioOperator file with what differs from the defaults.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"istio.io/istio/operator/pkg/manifest"
	"istio.io/istio/operator/pkg/render"
	"istio.io/istio/operator/pkg/util/clog"
)

// What others need comes first; the webhooks last, since they would be asked about what follows them.
var first = []string{"CustomResourceDefinition", "ServiceAccount", "ClusterRole", "Role", "ConfigMap"}
var last = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}

func main() {
	if len(os.Args) != 2 {
		fail("usage: manifest OPERATOR_FILE")
	}
	sets, _, err := render.GenerateManifest(os.Args[1:], nil, false, nil, clog.NewDefaultLogger())
	if err != nil {
		fail(err)
	}
	var objects []manifest.Manifest
	for _, set := range sets {
		objects = append(objects, set.Manifests...)
	}
	slices.SortFunc(objects, func(a, b manifest.Manifest) int {
		if ranks := rank(a.GetKind()) - rank(b.GetKind()); ranks != 0 {
			return ranks
		}
		if a.Hash() < b.Hash() {
			return -1
		}
		return 1
	})
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		fail(err)
	}
}

func rank(kind string) int {
	if place := slices.Index(first, kind); place >= 0 {
		return place - len(first)
	}
	return slices.Index(last, kind) + 1
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, "manifest:", reason)
	os.Exit(1)
}
