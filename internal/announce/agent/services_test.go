package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestEventsAreAboutTheService(t *testing.T) {
	web := branded("web")
	if ref := kept(&web).ref(); ref.Namespace != "default" || ref.Name != "web" || ref.UID != "web" {
		t.Errorf("the event refers to %v", ref)
	}
}

// kept is what the agent keeps of svc.
func kept(svc *corev1.Service) *Service {
	s, _ := readService(svc)
	return s
}
