package apitest_test

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

func TestTheServerAnswersAndKnowsBothVersions(t *testing.T) {
	clients, err := kubernetes.NewForConfig(apitest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"purelb.io/v1", "purelb.io/v2"} {
		list, err := clients.Discovery().ServerResourcesForGroupVersion(version)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if len(list.APIResources) != 4 {
			t.Errorf("%s has %d resources, want servicegroups and lbnodeagents and their status: %v", version, len(list.APIResources), list.APIResources)
		}
	}
}

func TestNamespacesAreFresh(t *testing.T) {
	a, b := apitest.Namespace(t), apitest.Namespace(t)
	if a == b {
		t.Errorf("both namespaces are called %s", a)
	}
	clients, err := kubernetes.NewForConfig(apitest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.CoreV1().Namespaces().Get(context.Background(), b, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
