// The reader of declarations, and the rules of classes.cpp, on small classes.
#include <doctest/doctest.h>

#include "tests/house/rules.hpp"
#include "tests/house/scan.hpp"

namespace troupe {
namespace {

struct ClassExample {
  const char* name;
  const char* text;
  int data, functions;
  bool plain;
};

const std::vector<ClassExample> examples = {
    {"data members", "struct A { int a; std::map<int, std::vector<int>> b; int c = 1, d{2}; };", 4,
     0, true},
    {"an initialiser with commas", "struct A { B b = {1, 2}; std::pair<int, int> c = f(1, 2); };",
     2, 0, true},
    {"a comparison in an initialiser", "struct A { bool a = 1 < 2; int b; };", 2, 0, true},
    {"functions as values", "struct A { std::function<void(int, int)> f; void (*g)(int); };", 2, 0,
     true},
    {"a bit-field and an array", "struct A { int a : 3; int b[4]; char c[2] = \"x\"; };", 3, 0,
     true},
    {"attributes and alignment",
     "struct alignas(64) A { alignas(64) std::atomic<int> a{0}; [[maybe_unused]] int b; };", 2, 0,
     true},
    {"constants belong to nobody", "struct A { static constexpr int a = 1; static const int b; };",
     0, 0, true},
    {"a lambda as a value", "struct A { F f = [](int a) { int b; return a; }; };", 1, 0, true},
    {"private members", "class A { int a; };", 1, 0, false},
    {"private further down", "struct A { int a; private: int b; };", 2, 0, false},
    {"functions",
     "class A { public: A(); explicit A(int a) : a_{a}, b_(a) {} ~A() { f(); } void f() const; "
     "int g() const noexcept { return a_; } template <class T> T h(T t); private: int a_, b_; };",
     2, 6, false},
    {"operators",
     "struct A { bool operator<(const A& o) const { return a < o.a; } int& operator()(int i); "
     "A& operator=(A&& o); operator bool() const; B operator->() const; int a; };",
     1, 5, false},
    {"defaulted and deleted ones are none",
     "struct A { A() = default; A(const A&) = delete; bool operator==(const A&) const = default; "
     "int a; };",
     1, 0, true},
    {"a virtual function of a base", "struct A : B { void f() override; virtual int g() = 0; };", 0,
     2, false},
    {"a trailing return type", "struct A { auto f() -> std::vector<int> { return {}; } };", 0, 1,
     false},
    {"a concept", "struct A { template <class T> requires std::integral<T> void f(T t) {} };", 0, 1,
     false},
    {"a class within", "struct A { struct B { int b; int c; }; enum class C { d, e }; B a; };", 1,
     0, true},
    {"an unnamed struct", "struct A { struct { int b; } a; };", 1, 0, true},
    {"declared before", "struct B; struct A { class C; struct B* b; using D = int; };", 1, 0, true},
    {"the first branch of #if",
     "struct A {\n#if X\n int a;\n#else\n int b;\n int c;\n#endif\n int d;\n};", 2, 0, true},
    {"a macro before the class", "MACRO_OF_NAMES(a::B)\nnamespace a {\nstruct A { int a, b; };\n}",
     2, 0, true},
    {"a macro with a body", "A_CASE(\"a\") { static int b; }\nstruct A { int a; };", 1, 0, true},
    {"comments and strings", "struct A { /* int a; */ S b = \"int c; }\"; // int d;\n int e; };", 2,
     0, true},
};

const ScannedClass& class_a(const Scan& scan) {
  for (const ScannedClass& c : scan.classes)
    if (c.name == "A") return c;
  FAIL("no class A");
  return scan.classes.front();
}

TEST_CASE("scan: members and functions of a class") {
  for (const ClassExample& e : examples) {
    CAPTURE(e.name);
    const Scan scanned = scan({"a.hpp", std::string("namespace troupe {\n") + e.text + "\n}\n"});
    const ScannedClass& a = class_a(scanned);
    CHECK(a.data == e.data);
    CHECK(a.functions == e.functions);
    CHECK(a.plain == e.plain);
    CHECK(a.friends == 0);
  }
}

TEST_CASE("scan: a class within another has both names, and bases are named without their home") {
  const Scan scanned = scan({"a.hpp",
                             "namespace n { class A : public m::B, C<A> { struct D {}; }; }\n"
                             "struct A::E { int e; };"});
  REQUIRE(scanned.classes.size() == 3);
  CHECK(scanned.classes[0].bases == std::vector<std::string>{"B", "C"});
  CHECK(scanned.classes[1].name == "A::D");
  CHECK(scanned.classes[2].name == "A::E");
  CHECK(scanned.classes[2].data == 1);
}

TEST_CASE("scan: friends are classes and types, not functions") {
  const Scan scanned =
      scan({"a.hpp",
            "class A { friend class B; friend struct C; friend D; friend void f(A&); "
            "friend bool operator==(const A& a, const A& b) { return true; } int a; };"});
  CHECK(class_a(scanned).friends == 3);
  CHECK(class_a(scanned).data == 1);
  CHECK(class_a(scanned).functions == 0);
}

TEST_CASE("scan: definitions of functions name their class") {
  const Scan scanned = scan({"a.cpp",
                             "namespace troupe {\n"
                             "A::A(int a) : a_{a}, b_(a) {}\n"
                             "A::~A() { f(); }\n"
                             "const std::vector<B::C>& B::D::f(int a) const { return a < 2; }\n"
                             "bool E::operator<(const E& e) const { return true; }\n"
                             "template <class T> void F<T>::f() {}\n"
                             "void free(G::H h) {}\n"
                             "void I::declared(int);\n"
                             "}\n"});
  CHECK(scanned.defines == std::vector<std::string>{"A", "B::D", "E", "F"});
}

struct VariableExample {
  const char* text;
  const char* names;  // of what can change
};

const std::vector<VariableExample> variables = {
    {"int a = 1;", "a"},
    {"std::atomic<int> a{0};", "a"},
    {"namespace { std::mutex a; }", "a"},
    {"inline int a[4];", "a"},
    {"const char* a = \"x\";", "a"},
    {"const char* const a = \"x\";", ""},
    {"const int a = 1;", ""},
    {"constexpr int a = 1, b = 2;", ""},
    {"inline const std::map<int, int> a = {{1, 2}};", ""},
    {"extern int a;", ""},
    {"int f(int a);", ""},
    {"void f() { static int a = 0; }", "a"},
    {"void f() { static const int a = 0; static constexpr int b[] = {1}; }", ""},
    {"int& f() { static std::vector<int> a(10); return a; }", "a"},
    {"int& f() { static int& a = *new int; return a; }", "a"},
    {"int& f() { static auto* const a = new A; return *a; }", "a"},
    {"void f() { static const std::unique_ptr<A> a = make(); }", "a"},
    {"void f() { static const std::shared_ptr<const A> a = make(); }", ""},
    {"void f() { thread_local const int a = g(); }", "a"},
    {"thread_local int a = 0;", "a"},
    {"struct A { static int a; static int f(int b); };", "a"},
    {"struct A { void f() { static int a; } int b; };", "a"},
    {"void f() { struct A { static int g(int a) { return a; } }; }", ""},
    {"void f() { auto g = [] { static int a; }; }", "a"},
    {"A::A() : b_{[] { static int a; return a; }()} {}", "a"},
    {"int A::a = 0;", ""},  // named where the class declares it
    {"class A; struct B;", ""},
};

TEST_CASE("scan: variables that can change and outlive a function") {
  for (const VariableExample& e : variables) {
    CAPTURE(e.text);
    std::string names;
    for (const ScannedVariable& v : scan({"a.cpp", e.text}).mutables) names += v.name;
    CHECK(names == e.names);
  }
}

std::string members(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += "int a" + std::to_string(i) + ";\n";
  return text;
}

TEST_CASE("classes: 15 data members are enough") {
  CHECK(check_classes({{"net/a.hpp", "struct A {\n" + members(15) + "};"}}).members.empty());
  const auto found = check_classes({{"net/a.hpp", "\nstruct A {\n" + members(16) + "};"}}).members;
  REQUIRE(found.size() == 1);
  CHECK(to_string(found[0]) == "net/a.hpp:2: A has 16 data members, with bases; at most 15");
  CHECK(found[0].place == "net/a.hpp A");
}

TEST_CASE("classes: members of bases count") {
  const Source base = {"net/b.hpp", "class B {\n" + members(10) + "};"};
  const Source derived = {"net/a.hpp", "class A : public B {\n" + members(10) + "};"};
  CHECK(check_classes({base, derived}).members.size() == 1);
  CHECK(check_classes({derived}).members.empty());
}

TEST_CASE("classes: what a caller fills in may have more members") {
  const std::string many = " {\n" + members(20) + "};";
  CHECK(check_classes({{"include/troupe/a.hpp", "struct A" + many}}).members.empty());
  CHECK(check_classes({{"actors/async/step_messages.hpp", "struct A" + many}}).members.empty());
  CHECK(check_classes({{"net/a.hpp", "struct MeshOptions" + many}}).members.empty());
  CHECK(check_classes({{"include/troupe/a.hpp", "class A" + many}}).members.size() == 1);
  CHECK(check_classes({{"net/a.hpp", "struct State" + many}}).members.size() == 1);
}

TEST_CASE("classes: 40 functions are enough") {
  std::string functions;
  for (int i = 0; i < 40; ++i) functions += "void f" + std::to_string(i) + "();\n";
  CHECK(check_classes({{"a.hpp", "struct A {\n" + functions + "};"}}).functions.empty());
  CHECK(check_classes({{"a.hpp", "struct A {\n" + functions + "A();};"}}).functions.size() == 1);
}

TEST_CASE("classes: functions of a class stand in one source") {
  const Source header = {"a.hpp", "class A { void f(); void g(); };"};
  const Source f = {"a.cpp", "void A::f() {}"}, g = {"a_more.cpp", "void A::g() {}"};
  CHECK(check_classes({header, f, {"a_inline.hpp", "inline void A::g() {}"}}).sliced.empty());
  const auto found = check_classes({header, f, g}).sliced;
  REQUIRE(found.size() == 1);
  CHECK(to_string(found[0]) == "a.hpp:1: A is defined in several sources: a.cpp a_more.cpp");
  // A class of a source, and a namespace, is no class of a header.
  CHECK(check_classes({header, f, {"b.cpp", "class A { void g(); }; void A::g() {}"}})
            .sliced.empty());
  CHECK(check_classes({{"a.cpp", "void n::f() {}"}, {"b.cpp", "void n::g() {}"}}).sliced.empty());
}

TEST_CASE("classes: no friends") {
  CHECK(check_classes({{"a.hpp", "class A { friend class B; };"}}).friends.size() == 1);
  CHECK(check_classes({{"a.hpp", "class A { friend void f(A); };"}}).friends.empty());
}

TEST_CASE("classes: state that nobody owns") {
  const auto found = check_statics({"net/a.cpp", "void f() {\n  static int count = 0;\n}\n"});
  REQUIRE(found.size() == 1);
  CHECK(found[0].line == 2);
  CHECK(found[0].place == "net/a.cpp count");
  CHECK(check_statics({"net/a.cpp", "void f() { static const int most = 7; }"}).empty());
  CHECK(check_statics({"tests/net/a.cpp", "int count = 0;"}).empty());
}

}  // namespace
}  // namespace troupe
