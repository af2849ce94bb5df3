package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// perRequest is less than the number of operations that etcd accepts in one request.
const perRequest = 100

// Stored is an object under its key in etcd, such as services/specs/default/web.
type Stored struct {
	Key    string
	Object runtime.Object
}

// Store writes objects directly into etcd, and the API server sees them through its watch. It is
// for many objects of a kind that the API server creates slowly: when it creates a Service, it
// counts all cluster addresses in use, one by one.
func (s *Server) Store(all []Stored) error {
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for some := range slices.Chunk(all, perRequest) {
		type operation struct {
			Put entry `json:"requestPut"`
		}
		var operations []operation
		for _, o := range some {
			kinds, _, err := scheme.Scheme.ObjectKinds(o.Object)
			if err != nil {
				return err
			}
			o.Object.GetObjectKind().SetGroupVersionKind(kinds[0])
			var value bytes.Buffer
			if err := encoder.Encode(o.Object, &value); err != nil {
				return fmt.Errorf("encode %s: %w", o.Key, err)
			}
			operations = append(operations, operation{entry{Key: path(o.Key), Value: value.Bytes()}})
		}
		if err := s.etcd("txn", map[string]any{"success": operations}); err != nil {
			return err
		}
	}
	return nil
}

// entry is an entry of etcd.
type entry struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
	End   []byte `json:"range_end,omitempty"`
}

func path(key string) []byte { return []byte("/registry/" + key) }

// Erase removes every key with this prefix from etcd.
func (s *Server) Erase(prefix string) error {
	begin := path(prefix)
	end := slices.Clone(begin)
	end[len(end)-1]++
	return s.etcd("deleterange", entry{Key: begin, End: end})
}

// etcd sends a request to etcd through its JSON gateway.
func (s *Server) etcd(what string, argument any) error {
	body, err := json.Marshal(argument)
	if err != nil {
		return err
	}
	response, err := http.Post(s.plane.Etcd.URL.JoinPath("v3/kv", what).String(), "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("etcd: %s: %w", what, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("etcd: %s: %s: %s", what, response.Status, text)
	}
	return nil
}
