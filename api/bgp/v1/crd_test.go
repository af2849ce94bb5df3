// Package v1_test proves the rules of the custom resource definitions on a real API server: the
// fields that it stores, the objects that it refuses, with their messages, and the columns of
// kubectl.
package v1_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// config returns a BGPConfiguration with that spec, in YAML's flow style.
func config(t *testing.T, namespace, spec string) *unstructured.Unstructured {
	t.Helper()
	return apitest.Object(t, "apiVersion: bgp.purelb.io/v1\nkind: BGPConfiguration\nmetadata: {name: default, namespace: "+namespace+"}\nspec:\n  "+strings.ReplaceAll(spec, "\n", "\n  "))
}

// shared is the client of all tests: a new client first asks the API server what it knows.
var shared client.Client

// typed returns a client for unstructured objects, and for the Go types.
func typed(t *testing.T) client.Client {
	t.Helper()
	if shared == nil {
		shared = apitest.Client(t, bgpv1.AddToScheme)
	}
	return shared
}

// TestEveryFieldIsStoredAsWritten uses an API server that refuses fields it does not know.
func TestEveryFieldIsStoredAsWritten(t *testing.T) {
	for _, file := range []string{"earlier", "added"} {
		t.Run(file, func(t *testing.T) {
			written := config(t, apitest.Namespace(t), apitest.Text(t, "api/bgp/v1/testdata/"+file+".yaml"))
			got := written.DeepCopy()
			expect.NoError(t, typed(t).Create(context.Background(), got, client.FieldValidation(metav1.FieldValidationStrict)))
			expect.NoError(t, typed(t).Get(context.Background(), client.ObjectKeyFromObject(written), got))
			if diff := cmp.Diff(written.Object["spec"], got.Object["spec"]); diff != "" {
				t.Errorf("(-written +stored):\n%s", diff)
			}
		})
	}
}

// TestRules plays the scenes of testdata. A scene has a spec, and the API server's messages about it.
func TestRules(t *testing.T) {
	expect.Scenes(t, "testdata/*.txt", false, func(t *testing.T, script string) string {
		spec, _, _ := strings.Cut(script, "\n-> ")
		refused := typed(t).Create(context.Background(), config(t, "default", spec), client.DryRunAll)
		if got := apitest.Refusals(t, refused); got != "" {
			return spec + "\n-> " + strings.ReplaceAll(got, "\n", "\n-> ")
		}
		return spec
	})
}

// The columns have names that users know.
func TestANodeReportsItsStatus(t *testing.T) {
	o := &bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	apitest.Report(t, typed(t), o, func() {
		o.Status = bgpv1.BGPNodeStatusStatus{NodeName: "node-a", RouterID: "192.0.2.10", NeighborCount: 1, Healthy: true}
	})
	text, err := apitest.Shared(t).Kubectl("", "get", "bgpns")
	fields := strings.Fields(text)
	if err != nil || !strings.Contains(strings.Join(fields, " "), "NAME NODE ROUTERID HEALTHY NEIGHBORS LASTUPDATED AGE node-a node-a 192.0.2.10 true 1 ") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestANodeWithoutNeighborsSaysSo: an absent list could have any reason.
func TestANodeWithoutNeighborsSaysSo(t *testing.T) {
	o := &bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}
	apitest.Report(t, typed(t), o, func() { o.Status = bgpv1.BGPNodeStatusStatus{NodeName: "node-b"} })
	text, err := apitest.Shared(t).Kubectl("", "get", "bgpnodestatus", "node-b", "-o", "jsonpath={.status}")
	if want := `{"healthy":false,"neighborCount":0,"nodeName":"node-b"}`; err != nil || text != want {
		t.Errorf("%v: got %s, want %s", err, text, want)
	}
}

// TestTheConfigurationIsKnownByItsNames also checks that the resource keeps its status apart from
// its spec, and the columns that users see.
func TestTheConfigurationIsKnownByItsNames(t *testing.T) {
	namespace := apitest.Namespace(t)
	o := &bgpv1.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}, Spec: bgpv1.BGPConfigurationSpec{Global: bgpv1.Global{ASN: 64512}}}
	apitest.Report(t, typed(t), o, func() {
		o.Spec.Global.ASN = 1
		o.Status.Conditions = []metav1.Condition{{Type: bgpv1.ConditionReady, Status: metav1.ConditionFalse, Reason: "ConfigurationInvalid", LastTransitionTime: metav1.Now()}}
		o.Status.ObservedGeneration, o.Status.NeighborCount = 1, 2
	})
	for _, name := range []string{"configs", "config", "bgpconfig", "bgpconfigs", "bgpconfiguration", "bgpconfigurations"} {
		text, err := apitest.Shared(t).Kubectl("", "get", "-n", namespace, name, "default", "-o", "jsonpath={.spec.global.asn} {.status.conditions[0].reason} {.status.observedGeneration}")
		if want := "64512 ConfigurationInvalid 1"; err != nil || text != want {
			t.Errorf("%s: %v: got %s, want %s", name, err, text, want)
		}
	}
	text, err := apitest.Shared(t).Kubectl("", "get", "-n", namespace, "bgpconfig", "-o", "wide")
	if want := "NAME READY REASON NEIGHBORS ASN AGE default False ConfigurationInvalid 2 64512 "; err != nil || !strings.HasPrefix(strings.Join(strings.Fields(text), " "), want) {
		t.Errorf("%v: got %s, want %s", err, text, want)
	}
}
