// Package v1_test proves the rules of the custom resource definitions on a real API server: the
// fields that it stores, the objects that it refuses, with their messages, and the columns of
// kubectl.
package v1_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// config returns a BGPConfiguration with that spec, in YAML's flow style.
func config(t *testing.T, namespace, spec string) *unstructured.Unstructured {
	t.Helper()
	return apitest.Object(t, "apiVersion: bgp.purelb.io/v1\nkind: BGPConfiguration\nmetadata: {name: default, namespace: "+namespace+"}\nspec: "+spec)
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

// earlier has every field of earlier generations, with values that those accepted, whether sensible
// or not.
const earlier = `{
	global: {asn: 64512, routerID: '${NODE_IP}', routerIDPool: 10.255.0.0/16, listenPort: 179, listenAddresses: [0.0.0.0, '::'], families: [ipv4-unicast, ipv6-unicast, l2vpn-evpn],
		useMultiplePaths: true, routeSelectionOptions: {alwaysCompareMed: true, advertiseInactiveRoutes: true},
		defaultRouteDistance: {externalRouteDistance: 20, internalRouteDistance: 200}, confederation: {enabled: false, identifier: 0, memberAsList: [1, 2]},
		gracefulRestart: {enabled: true, restartTime: 0, helperOnly: false}, bindToDevice: '', nodeStatus: {enabled: true, heartbeatSeconds: 10},
		applyPolicy: {importPolicy: {name: in, policies: [a], defaultAction: ACCEPT}, exportPolicy: {policies: []}}},
	neighbors: [
		{config: {peerAsn: 64513, neighborAddress: 192.0.2.1, localAsn: 0, description: router, peerGroup: '', adminDown: false, vrf: '', authPassword: secret,
			authPasswordSecretRef: {name: bgp, key: password, optional: false}}, nodeSelector: {matchLabels: {rack: '1'}, matchExpressions: [{key: a, operator: Exists}]},
			afiSafis: [{family: ipv4-unicast, enabled: true, prefixLimit: {maxPrefixes: 100, shutdownThresholdPct: 80}, addPaths: {receive: true, sendMax: 8}}],
			applyPolicy: {importPolicy: {}, exportPolicy: {name: out, policies: [a, b], defaultAction: reject}},
			timers: {config: {connectRetry: 120, holdTime: 90, keepaliveInterval: 30, minimumAdvertisementInterval: 5}},
			transport: {localAddress: 192.0.2.2, passiveMode: true, bindInterface: eth0}, gracefulRestart: {enabled: false, restartTime: 120, helperOnly: true},
			routeReflector: {routeReflectorClient: true, routeReflectorClusterId: '1'}, ebgpMultihop: {enabled: true, multihopTtl: 0}},
		{config: {peerAsn: -1, neighborInterface: eth1}, afiSafis: [{family: rtc, enabled: false}]},
	],
	peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513, localAsn: 1, description: d, authPassword: p, authPasswordSecretRef: {name: '', key: k}}, nodeSelector: {},
		afiSafis: [], applyPolicy: {}, timers: {config: {}}, transport: {}}],
	dynamicNeighbors: [{prefix: here, peerGroup: ''}],
	vrfs: [{name: red, rd: '64512:1', importRt: ['64512:1'], exportRt: [], netlinkImport: {enabled: true, interfaceList: [eth1]},
		netlinkExport: {enabled: true, linuxVrf: red, linuxTableId: 10, metric: 20, validateNexthop: false, communityList: ['1:1'], largeCommunityList: ['1:1:1']}}],
	definedSets: [{type: prefix, name: a, list: [], prefixes: [{ipPrefix: 192.0.2.0/24, maskLengthMin: 24, maskLengthMax: 32}]}, {type: any, name: ''}],
	policyDefinitions: [{name: a, statements: [{name: s, conditions: {prefixSet: {name: a, match: any}, neighborSet: {name: a, match: invert}, asPathSet: {name: a, match: all},
		communitySet: {name: a}, rpkiResult: valid}, actions: {routeAction: accept, community: {type: add, communities: ['1:1']}, med: {type: mod, value: -5},
		asPrepend: {asn: 64512, repeat: 3}, localPref: 100}}]}, {name: '', statements: []}],
	netlinkImport: {enabled: true, vrf: red, interfaceList: [kube-lb0, 'eth*']},
	netlinkExport: {enabled: true, dampeningInterval: 100, routeProtocol: 186, rules: [{name: all, communityList: ['1:1'], largeCommunityList: ['1:1:1'], vrf: red, tableId: 5, metric: 0, validateNexthop: true}]},
}`

// added has every field that earlier generations lacked.
const added = `{
	communityAliases: {customer: '65000:100', blue-1: '64512:100:1'},
	nodeSelector: {matchLabels: {rack: a}, matchExpressions: [{key: rack, operator: In, values: [a]}]},
	global: {asn: 4200000000, allowTransit: true, gracefulRestart: {deferralTime: 5, longLivedRestartTime: 3600}},
	neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor},
		bfd: {enabled: true, minReceiveIntervalMilliseconds: 50, minTransmitIntervalMilliseconds: 300, detectionMultiplier: 3, multihop: true, minimumTtl: 254, passive: true},
		ttlSecurity: {enabled: true, ttlMin: 255}, transport: {remotePort: 1790}, allowOwnAsn: 1, gracefulRestart: {deferralTime: 1}},
		{config: {neighborInterface: eth1, peerAsn: external, localAsn: "${node.annotations['example.com/asn']}"}, transport: {localAddress: "${node.labels['example.com/address']}"}}, {config: {neighborInterface: eth2, peerAsn: internal}},
		{config: {neighborGateway: ipv4, peerAsn: 1}}, {config: {neighborGateway: ipv6, neighborAddress: '', neighborInterface: '', peerAsn: 1}}],
	peerGroups: [{config: {peerGroupName: tor, peerAsn: 4200000001}, bfd: {}, ttlSecurity: {enabled: false}, ebgpMultihop: {enabled: true, multihopTtl: 2},
		gracefulRestart: {enabled: true}, routeReflector: {routeReflectorClient: false}}],
	definedSets: [{type: large-community, name: l, list: ['1:1:1']}],
	policyDefinitions: [{name: a, statements: [{conditions: {largeCommunitySet: {name: l, match: any}}, actions: {largeCommunity: {type: replace, communities: ['1:1:1']}}}]}],
	netlinkExport: {rules: [{name: a, allowDefaultRoute: true}]},
}`

// TestEveryFieldIsStoredAsWritten uses an API server that refuses fields it does not know.
func TestEveryFieldIsStoredAsWritten(t *testing.T) {
	for name, spec := range map[string]string{
		"earlier": strings.ReplaceAll(earlier, "\n\t", "\n  "), "added": strings.ReplaceAll(added, "\n\t", "\n  "),
		"least": "{global: {asn: 64512}}",
	} {
		t.Run(name, func(t *testing.T) {
			namespace := apitest.Namespace(t)
			written := config(t, namespace, strings.ReplaceAll(spec, "\t", " "))
			got := written.DeepCopy()
			if err := typed(t).Create(context.Background(), got, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Fatal(err)
			}
			if err := typed(t).Get(context.Background(), client.ObjectKeyFromObject(written), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(written.Object["spec"], got.Object["spec"]); diff != "" {
				t.Errorf("(-written +stored):\n%s", diff)
			}
		})
	}
}

const malformedSelector = "spec.nodeSelector: matchExpressions must have the operator In or NotIn with values, or Exists or DoesNotExist without values"

const oneNeighbor = "write exactly one of neighborAddress, neighborInterface and neighborGateway"

const excluded = "ttlSecurity and ebgpMultihop exclude each other: a neighbor is either on the same link or it is not"

func TestInvalidObjectIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, spec, want string }{
		{"nothing", "{}", "spec.global: Required value"},
		{"no number of the AS", "{global: {}}", "spec.global.asn: Required value"},
		{"a node selector with an unknown operator", "GLOBAL nodeSelector: {matchExpressions: [{key: rack, operator: Is}]}}", malformedSelector},
		{"a node selector without values", "GLOBAL nodeSelector: {matchExpressions: [{key: rack, operator: In}]}}", malformedSelector},
		{"an alias with a name that is none", "GLOBAL communityAliases: {Customer: '1:1'}}", "spec.communityAliases: communityAliases must have names of lower-case letters, digits and '-' that begin with a letter, with at most 63 characters"},
		{"an alias for nothing", "GLOBAL communityAliases: {customer: '65536:1'}}", "spec.communityAliases[customer]: communityAliases must hold two numbers of 0 to 65535 each, such as 65000:100, or three numbers of 0 to 4294967295 each, such as 64512:100:1"},
		{"an empty neighbor", "GLOBAL neighbors: [{}]}", "spec.neighbors[0].config: Required value"},
		{"a group without a name", "GLOBAL peerGroups: [{config: {}}]}", "spec.peerGroups[0].config.peerGroupName: Required value"},
		{"too fast a heartbeat", "{global: {asn: 1, nodeStatus: {heartbeatSeconds: 9}}}", "spec.global.nodeStatus.heartbeatSeconds: spec.global.nodeStatus.heartbeatSeconds in body should be greater than or equal to 10"},
		{"a TTL of BFD on the link", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1}, bfd: {multihop: false, minimumTtl: 254}}]}", "spec.neighbors[0].bfd: minimumTtl is for multihop: remove it, or set multihop to true"},
		{
			"too fast a detection", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1}, bfd: {minReceiveIntervalMilliseconds: 49, minTransmitIntervalMilliseconds: 60001, detectionMultiplier: 1}}]}",
			"spec.neighbors[0].bfd.detectionMultiplier: spec.neighbors[0].bfd.detectionMultiplier in body should be greater than or equal to 2\n" +
				"spec.neighbors[0].bfd.minReceiveIntervalMilliseconds: spec.neighbors[0].bfd.minReceiveIntervalMilliseconds in body should be greater than or equal to 50\n" +
				"spec.neighbors[0].bfd.minTransmitIntervalMilliseconds: spec.neighbors[0].bfd.minTransmitIntervalMilliseconds in body should be less than or equal to 60000",
		},
		{"a TTL that does not exist", "GLOBAL peerGroups: [{config: {peerGroupName: a}, ttlSecurity: {ttlMin: 256}}]}", "spec.peerGroups[0].ttlSecurity.ttlMin: spec.peerGroups[0].ttlSecurity.ttlMin in body should be less than or equal to 255"},
		{"a port that does not exist", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1}, transport: {remotePort: 65536}}]}", "spec.neighbors[0].transport.remotePort: spec.neighbors[0].transport.remotePort in body should be less than or equal to 65535"},
		{"its own AS too often", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1}, allowOwnAsn: 11}]}", "spec.neighbors[0].allowOwnAsn: spec.neighbors[0].allowOwnAsn in body should be less than or equal to 10"},
		{"a word that is no AS", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: any}}]}", "spec.neighbors[0].config.peerAsn: spec.neighbors[0].config.peerAsn in body should match '^(external|internal)$'"},
		{"the number of an AS as text", "GLOBAL peerGroups: [{config: {peerGroupName: a, peerAsn: '64513'}}]}", "spec.peerGroups[0].config.peerAsn: spec.peerGroups[0].config.peerAsn in body should match '^(external|internal)$'"},
		{"a template of something else", "GLOBAL neighbors: [{config: {neighborInterface: eth1, localAsn: '${node.name}'}}]}", `spec.neighbors[0].config.localAsn: spec.neighbors[0].config.localAsn in body should match '^\$\{node\.(annotations|labels)\['[A-Za-z0-9._/-]{1,317}'\]\}$'`},
		{"nobody", "GLOBAL neighbors: [{config: {peerAsn: 1}}]}", "spec.neighbors[0].config: " + oneNeighbor},
		{"a neighbor with two names", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1, neighborInterface: eth1}}]}", "spec.neighbors[0].config: " + oneNeighbor},
		{"an address and a gateway", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1, neighborGateway: ipv4}}]}", "spec.neighbors[0].config: " + oneNeighbor},
		{"a gateway of no family", "GLOBAL neighbors: [{config: {neighborGateway: both}}]}", `spec.neighbors[0].config.neighborGateway: Unsupported value: "both": supported values: "ipv4", "ipv6"`},
		{"no deferral time", "{global: {asn: 1, gracefulRestart: {deferralTime: 0}}}", "spec.global.gracefulRestart.deferralTime: spec.global.gracefulRestart.deferralTime in body should be greater than or equal to 1"},
		{"too long a restart time", "{global: {asn: 1, gracefulRestart: {longLivedRestartTime: 16777216}}}", "spec.global.gracefulRestart.longLivedRestartTime: spec.global.gracefulRestart.longLivedRestartTime in body should be less than or equal to 16777215"},
		{"multihop and TTL security", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1}, ebgpMultihop: {enabled: true}, ttlSecurity: {}}]}", "spec.neighbors[0]: " + excluded},
		{"a group with multihop and TTL security", "GLOBAL peerGroups: [{config: {peerGroupName: a}, ebgpMultihop: {enabled: true}, ttlSecurity: {enabled: true}}]}", "spec.peerGroups[0]: " + excluded},
		{"multihop and TTL security, one of them disabled", "GLOBAL neighbors: [{config: {neighborAddress: 192.0.2.1}, ebgpMultihop: {enabled: false}, ttlSecurity: {}}, {config: {neighborInterface: eth1}, ebgpMultihop: {enabled: true}, ttlSecurity: {enabled: false}}]}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := refusals(t, config(t, "default", strings.Replace(tt.spec, "GLOBAL", "{global: {asn: 64512},", 1)))
			if got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// refusals tries to create o. It returns the objections of the API server, by field, without the
// wrong values.
func refusals(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	return apitest.Refusals(t, typed(t).Create(context.Background(), o, client.DryRunAll))
}

// status returns a status of this time with every field set.
func status(at time.Time) bgpv1.BGPNodeStatusStatus {
	now := metav1.NewTime(at)
	route := bgpv1.RIBRoute{Prefix: "198.51.100.7/32", NextHop: "0.0.0.0", FromPeer: "192.0.2.1", AdvertisedTo: []string{"192.0.2.1"}, Communities: []string{"1:1"}, Weight: 3}
	return bgpv1.BGPNodeStatusStatus{
		NodeName: "node-a", RouterID: "192.0.2.10", RouterIDSource: "node-ipv4", ASN: 4200000000, LastUpdated: &now, HeartbeatSeconds: 60, NeighborCount: 1, Healthy: true,
		Conditions: []metav1.Condition{{Type: bgpv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AllHealthy", Message: "1 neighbor(s) established", LastTransitionTime: now}},
		Neighbors: []bgpv1.NodeNeighbor{{
			Address: "192.0.2.1", Interface: "eth1", PeerASN: 4200000001, LocalASN: 1, State: "Established", StateSince: &now, SessionUpSince: &now,
			PrefixesSent: 1, PrefixesReceived: 2, Description: "router", LastError: "none", BFD: "Up",
		}},
		NetlinkImport: &bgpv1.NodeImport{
			Enabled: true, VRF: "red", Interfaces: []bgpv1.NodeInterface{{Name: "kube-lb0", Exists: true, OperState: "up"}},
			ImportedAddresses: []bgpv1.ImportedAddress{{Address: "198.51.100.7/32", Interface: "kube-lb0", InRIB: true}}, TotalImported: 1, Truncated: true,
		},
		RIB: &bgpv1.NodeRIB{LocalRoutes: []bgpv1.RIBRoute{route}, LocalRouteCount: 1, ReceivedRoutes: []bgpv1.RIBRoute{route}, ReceivedRouteCount: 1, Truncated: true},
		NetlinkExport: &bgpv1.NodeExport{
			Enabled: true, Protocol: 186, DampeningInterval: 100, Rules: []bgpv1.NodeExportRule{{Name: "all", Metric: 20, TableID: 4294967295}},
			ExportedRoutes: []bgpv1.ExportedRoute{{Prefix: "203.0.113.0/24", Table: "main", Metric: 4294967295, Installed: true, Reason: "none"}}, TotalExported: 1, Truncated: true,
		},
		VRFs: []bgpv1.NodeVRF{{Name: "red", RD: "1:1", ImportedRouteCount: 1, ExportedRouteCount: 2}},
	}
}

// TestNodeReportsItsStatus also checks the names in the columns that users see.
func TestNodeReportsItsStatus(t *testing.T) {
	c := typed(t)
	o := &bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	now := time.Now().Truncate(time.Second) // the API server keeps whole seconds
	apitest.Report(t, c, o, func() { o.Status = status(now) })
	var got bgpv1.BGPNodeStatus
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(status(now), got.Status, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
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
