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

// perRequest keeps below the number of operations that etcd takes at once.
const perRequest = 100

// Stored is an object where the API server keeps it, such as
// services/specs/default/web.
type Stored struct {
	Key    string
	Object runtime.Object
}

// Store puts objects into etcd past the API server, which sees them come. It is
// for many objects of a kind that the API server is slow to create: that of a
// Service counts all cluster addresses in use, one by one.
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

// entry is one of etcd's.
type entry struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
	End   []byte `json:"range_end,omitempty"`
}

func path(key string) []byte { return []byte("/registry/" + key) }

// Erase removes what has a key that begins with prefix from etcd.
func (s *Server) Erase(prefix string) error {
	begin := path(prefix)
	end := slices.Clone(begin)
	end[len(end)-1]++
	return s.etcd("deleterange", entry{Key: begin, End: end})
}

// etcd has it do something, through its JSON gateway.
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
