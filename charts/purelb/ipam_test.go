package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/apitest"
)

// Users can also add an IPAM server by a strategic merge patch. Its volume has this name and this
// path, so the chart must use neither.
func TestChartLeavesNamesForIPAMServers(t *testing.T) {
	pod := podOf(t, mustRender(t, "")["Deployment allocator"])
	for _, v := range pod.Volumes {
		t.Errorf("the chart uses the volume %s", v.Name)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		t.Errorf("the allocator mounts %s at %s", m.Name, m.MountPath)
	}
	if pod.SecurityContext.FSGroup != nil || len(pod.Containers) > 1 {
		t.Errorf("the pod has the group %v and %d containers", value(pod.SecurityContext.FSGroup), len(pod.Containers))
	}
}

func TestIPAMServersShareAFolderWithTheAllocator(t *testing.T) {
	const socket, token = "ipam-socket /var/run/purelb", "ipam-no-token /var/run/secrets/kubernetes.io/serviceaccount read-only"
	for _, tt := range []struct {
		name, containers string
		want             []string
	}{
		{"one", "[{name: ipam, image: x}]", []string{"ipam: " + socket + ", " + token}},
		{"two", "[{name: a, image: x}, {name: b, image: x}]", []string{"a: " + socket + ", " + token, "b: " + socket + ", " + token}},
		{
			"a server with its own volume", "[{name: ipam, image: x, volumeMounts: [{name: state, mountPath: /state}]}]",
			[]string{"ipam: state /state, " + socket + ", " + token},
		},
		{
			"a server with the folder at another path", "[{name: ipam, image: x, volumeMounts: [{name: ipam-socket, mountPath: /run/ipam}]}]",
			[]string{"ipam: ipam-socket /run/ipam, " + token},
		},
		{
			"a server with its own token", "[{name: ipam, image: x, volumeMounts: [{name: mine, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]",
			[]string{"ipam: mine /var/run/secrets/kubernetes.io/serviceaccount, " + socket},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := podOf(t, mustRender(t, "allocator: {ipam: {containers: "+tt.containers+", volumes: [{name: state, emptyDir: {}}]}}")["Deployment allocator"])
			want := append([]string{"allocator: " + socket + " read-only"}, tt.want...)
			if diff := cmp.Diff(want, mounts(pod)); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			var volumes []string
			for _, v := range pod.Volumes {
				volumes = append(volumes, v.Name)
			}
			if diff := cmp.Diff([]string{"ipam-socket", "ipam-no-token", "state"}, volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
		})
	}
}

func mounts(pod corev1.PodSpec) []string {
	var list []string
	for _, c := range pod.Containers {
		var mounts []string
		for _, m := range c.VolumeMounts {
			mount := m.Name + " " + m.MountPath
			if m.ReadOnly {
				mount += " read-only"
			}
			mounts = append(mounts, mount)
		}
		list = append(list, c.Name+": "+strings.Join(mounts, ", "))
	}
	return list
}

// The server may run as another user. Then its socket has the group of the folder.
func TestAllocatorHasTheGroupOfTheSockets(t *testing.T) {
	for _, tt := range []struct {
		name, values string
		group, user  int64
	}{
		{"by default", "{containers: [{name: ipam, image: x}]}", 65534, 65534},
		{"a server of another user", "{containers: [{name: ipam, image: x, securityContext: {runAsUser: 1000}}]}", 65534, 1000},
		{"another group", "{containers: [{name: ipam, image: x}]}, securityContext: {fsGroup: 7}", 7, 65534},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := podOf(t, mustRender(t, "allocator: {ipam: "+tt.values+"}")["Deployment allocator"])
			user := pod.SecurityContext.RunAsUser
			if own := pod.Containers[1].SecurityContext.RunAsUser; own != nil {
				user = own
			}
			if got := value(pod.SecurityContext.FSGroup); got != tt.group || value(user) != tt.user {
				t.Errorf("the group is %d and the server's user %d, want %d and %d", got, value(user), tt.group, tt.user)
			}
		})
	}
}

func TestIPAMValuesInTheManualWork(t *testing.T) {
	const socket = ", ipam-socket /var/run/purelb, ipam-no-token /var/run/secrets/kubernetes.io/serviceaccount read-only"
	want := []string{ // for each example, in order
		"ipam: state /state" + socket,
	}
	var got []string
	for _, part := range strings.Split(apitest.Text(t, "docs/ipam.md"), "\n```\nallocator:\n")[1:] {
		values, _, _ := strings.Cut(part, "```")
		pod := podOf(t, mustRender(t, "allocator:\n"+values)["Deployment allocator"])
		got = append(got, mounts(pod)[1:]...)
		for _, m := range pod.Containers[1].VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s mounts %s, but the pod has no such volume", pod.Containers[1].Name, m.Name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}
