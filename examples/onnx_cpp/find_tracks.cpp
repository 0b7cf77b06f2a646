// Tracks from hits in C++: reads a CSV file of hits, runs a model of `hept-train export`, prints track ids.
//
//     find_tracks model.onnx hits.csv [LIMIT]
//
// The CSV file has a header and one line a hit, with a column for every input of the model in the units that the
// model's metadata names ("inputs"); all columns hold numbers. All hits are one cloud. Printed is
// "point,track", where -1 stands for no track.
//
// Tracks are found as was tuned for the model (its metadata "clustering"): by the tree, which also uses the columns
// layer, volume_id, layer_id and module_id; else hits nearer than `eps` are joined. LIMIT replaces the tuned
// distance. What the Python package does after the tree is not here: helix fits that take wrong hits out, merge and
// complete tracks, and further passes over the hits that are left. All pairs are compared: for 60,000 hits and
// more, replace `find_pairs` by a search tree.

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Columns = std::map<std::string, std::vector<double>>;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  std::string cell;
  while (std::getline(stream, cell, ',')) {
    // Files from Windows end their lines with \r\n.
    if (!cell.empty() && cell.back() == '\r') cell.pop_back();
    cells.push_back(cell);
  }
  return cells;
}

Columns read_csv(const std::string& path, std::size_t& n_points) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) throw std::runtime_error(path + ": no such file, or an empty one");
  const auto names = split(line);
  Columns columns;
  n_points = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line == "\r") continue;
    const auto cells = split(line);
    ++n_points;
    if (cells.size() != names.size())
      throw std::runtime_error(path + ": " + std::to_string(cells.size()) + " cells for hit " +
                               std::to_string(n_points) + "; expected " + std::to_string(names.size()));
    for (std::size_t i = 0; i < names.size(); ++i) {
      char* end = nullptr;
      const double value = std::strtod(cells[i].c_str(), &end);
      if (end == cells[i].c_str())
        throw std::runtime_error(path + ": '" + cells[i] + "' in column " + names[i] + "; expected a number");
      columns[names[i]].push_back(value);
    }
  }
  if (n_points == 0) throw std::runtime_error(path + ": no hits");
  return columns;
}

template <typename T>
Ort::Value wrap(std::vector<T>& values) {
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
  return Ort::Value::CreateTensor<T>(memory, values.data(), values.size(), shape, 1);
}

// The embedding of all points as one cloud.
std::vector<Ort::Value> embed(Ort::Session& session, const Columns& columns, std::size_t n_points) {
  Ort::AllocatorWithDefaultOptions allocator;
  const std::string output = session.GetOutputNameAllocated(0, allocator).get();
  if (output != "embedding") throw std::runtime_error("the model gives '" + output + "'; expected embeddings");
  std::vector<std::string> names;
  std::vector<Ort::Value> tensors;
  // A tensor of onnxruntime does not own its values, and a deque does not move them.
  std::deque<std::vector<float>> floats;
  std::deque<std::vector<std::int64_t>> integers;
  for (std::size_t i = 0; i < session.GetInputCount(); ++i) {
    names.emplace_back(session.GetInputNameAllocated(i, allocator).get());
    if (names.back() == "offsets") {
      // Where clouds begin, then the number of points. Several clouds lie one behind the other.
      tensors.push_back(wrap(integers.emplace_back(std::vector<std::int64_t>{0, static_cast<std::int64_t>(n_points)})));
      continue;
    }
    const auto found = columns.find(names.back());
    if (found == columns.end()) throw std::runtime_error("no column '" + names.back() + "', which the model reads");
    const auto& values = found->second;
    const auto type = session.GetInputTypeInfo(i);
    if (type.GetTensorTypeAndShapeInfo().GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)  // classes
      tensors.push_back(wrap(integers.emplace_back(values.begin(), values.end())));
    else
      tensors.push_back(wrap(floats.emplace_back(values.begin(), values.end())));
  }
  std::vector<const char*> inputs;
  for (const auto& name : names) inputs.push_back(name.c_str());
  const char* outputs[] = {output.c_str()};
  return session.Run(Ort::RunOptions{nullptr}, inputs.data(), tensors.data(), inputs.size(), outputs, 1);
}

struct Pair {
  double distance;
  std::size_t first, second;
};

std::vector<Pair> find_pairs(const float* rows, std::size_t n, std::size_t width, double limit) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      double square = 0;
      for (std::size_t k = 0; k < width; ++k) {
        const double apart = static_cast<double>(rows[i * width + k]) - rows[j * width + k];
        square += apart * apart;
      }
      if (square < limit * limit) pairs.push_back({square, i, j});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.distance < b.distance; });
  return pairs;
}

using Hits = std::vector<std::size_t>;

std::size_t find_root(Hits& parent, std::size_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

// Hits that are joined by pairs, directly or through others: DBSCAN without its density condition.
std::vector<Hits> join_groups(const std::vector<Pair>& pairs, std::size_t n, std::size_t least) {
  Hits parent(n);
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  for (const auto& pair : pairs) parent[find_root(parent, pair.first)] = find_root(parent, pair.second);
  std::vector<Hits> groups(n);
  for (std::size_t i = 0; i < n; ++i) groups[find_root(parent, i)].push_back(i);
  const auto is_small = [least](const Hits& group) { return group.empty() || group.size() < least; };
  groups.erase(std::remove_if(groups.begin(), groups.end(), is_small), groups.end());
  return groups;
}

// A number of the metadata, which is JSON of one object with names that occur once; NaN where it is null.
double read_number(const std::string& text, const std::string& name) {
  const auto at = text.find('"' + name + "\": ");
  const char* begin = at == std::string::npos ? "" : text.c_str() + at + name.size() + 4;
  char* end = nullptr;
  const double value = std::strtod(begin, &end);
  return end == begin ? std::nan("") : value;
}

// Joins the nearest hits first; of all sets on the way, keeps the disjoint ones that score best together. A set
// scores layers^power + overlap * (modules - layers) - shared * (hits - modules).
std::vector<Hits> grow_tracks(const std::vector<Pair>& pairs, const std::vector<double>& layer,
                              const std::vector<std::int64_t>& module, const std::string& chosen) {
  const double power = read_number(chosen, "power"), overlap = read_number(chosen, "overlap");
  const double shared = read_number(chosen, "shared"), least = read_number(chosen, "min_layers");
  const double most = read_number(chosen, "max_hits");
  // Of each set: its hits, none where they are too many; the best tracks inside it, and what they score.
  struct Set {
    Hits hits;
    std::vector<Hits> best;
    double score = 0;
  };
  const std::size_t n = layer.size();
  std::vector<Set> sets(n);
  Hits parent(n);
  for (std::size_t i = 0; i < n; ++i) sets[i].hits = {parent[i] = i};
  for (const auto& pair : pairs) {
    std::size_t a = find_root(parent, pair.first), b = find_root(parent, pair.second);
    if (a == b) continue;
    if (sets[a].best.size() < sets[b].best.size()) std::swap(a, b);
    Set &ours = sets[a], theirs = std::move(sets[b]);
    parent[b] = a;
    ours.score += theirs.score;
    ours.best.insert(ours.best.end(), theirs.best.begin(), theirs.best.end());
    const bool is_small = !ours.hits.empty() && !theirs.hits.empty() && ours.hits.size() + theirs.hits.size() <= most;
    if (!is_small) {
      ours.hits.clear();
      continue;
    }
    ours.hits.insert(ours.hits.end(), theirs.hits.begin(), theirs.hits.end());
    std::set<double> layers;
    std::set<std::int64_t> modules;
    for (const auto i : ours.hits) layers.insert(layer[i]), modules.insert(module[i]);
    const double n_layers = static_cast<double>(layers.size()), n_modules = static_cast<double>(modules.size());
    const double score = std::pow(n_layers, power) + overlap * (n_modules - n_layers) -
                         shared * (static_cast<double>(ours.hits.size()) - n_modules);
    if (n_layers >= least && score > ours.score) ours.score = score, ours.best = {ours.hits};
  }
  std::vector<Hits> tracks;
  for (std::size_t i = 0; i < n; ++i)
    if (parent[i] == i) tracks.insert(tracks.end(), sets[i].best.begin(), sets[i].best.end());
  return tracks;
}

// Numbers that tell modules apart; without module_id each hit has its own.
std::vector<std::int64_t> number_modules(const Columns& columns, std::size_t n) {
  std::vector<std::int64_t> module(n);
  std::iota(module.begin(), module.end(), std::int64_t{0});
  if (columns.count("module_id") == 0) return module;
  std::fill(module.begin(), module.end(), std::int64_t{0});
  for (const char* name : {"volume_id", "layer_id", "module_id"})
    if (const auto found = columns.find(name); found != columns.end())
      for (std::size_t i = 0; i < n; ++i) module[i] = (module[i] << 20) + static_cast<std::int64_t>(found->second[i]);
  return module;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: find_tracks model.onnx hits.csv [LIMIT]\n";
    return 2;
  }
  try {
    std::size_t n = 0;
    const Columns columns = read_csv(argv[2], n);
    Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "find_tracks");
    Ort::SessionOptions options;
    // The arena would keep what the largest event needed, rounded up to powers of two.
    options.DisableCpuMemArena();
    Ort::Session session(env, argv[1], options);
    Ort::AllocatorWithDefaultOptions allocator;
    const auto text = session.GetModelMetadata().LookupCustomMetadataMapAllocated("clustering", allocator);
    const std::string chosen = text ? text.get() : "null";
    const bool is_tree = chosen.find("\"method\": \"tree\"") != std::string::npos && columns.count("layer") > 0;
    const double limit = argc > 3 ? std::atof(argv[3]) : read_number(chosen, is_tree ? "cut" : "eps");
    if (!(limit > 0)) throw std::runtime_error("no distance was tuned for the model; give LIMIT");
    const auto outputs = embed(session, columns, n);
    const auto width = static_cast<std::size_t>(outputs[0].GetTensorTypeAndShapeInfo().GetShape().at(1));
    const auto pairs = find_pairs(outputs[0].GetTensorData<float>(), n, width, limit);
    const double least = read_number(chosen, "min_points");
    auto tracks = is_tree ? grow_tracks(pairs, columns.at("layer"), number_modules(columns, n), chosen)
                          : join_groups(pairs, n, least > 0 ? static_cast<std::size_t>(least) : 3);
    for (auto& track : tracks) std::sort(track.begin(), track.end());
    // Numbered by their first hits.
    std::sort(tracks.begin(), tracks.end());
    std::vector<long> label(n, -1);
    for (std::size_t t = 0; t < tracks.size(); ++t)
      for (const auto i : tracks[t]) label[i] = static_cast<long>(t);
    std::cout << "point,track\n";
    for (std::size_t i = 0; i < n; ++i) std::cout << i << ',' << label[i] << '\n';
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
