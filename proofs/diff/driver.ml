(* Reads programs that dump.py wrote, one after the other, and prints for each what the proved functions say of it:

     case NAME cost N dcost N output N adjoint N needed N inputs N touched N all_touched N
     gradient NUMBER ..        one line for each leaf

   cost and dcost are (B)'s terms for the program, output is the size of its output; adjoint is the cost of the
   program with its adjoint, needed that without what no gradient reads, inputs the points of the gradients'
   predicates; touched are the points that the program executes, all_touched those with its adjoint (R). *)
open Tlssa

(* -- numbers: Coq's integers are strings of bits *)

let rec positive n = if n = 1 then XH else if n land 1 = 1 then XI (positive (n / 2)) else XO (positive (n / 2))
let integer n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))
let ten = integer 10

let integer_of_string s =
  let negative = s.[0] = '-' in
  let digits = if negative then String.sub s 1 (String.length s - 1) else s in
  let add z c = Z.add (Z.mul z ten) (integer (Char.code c - Char.code '0')) in
  let z = Seq.fold_left add Z0 (String.to_seq digits) in
  if negative then Z.opp z else z

let rec to_int = function XH -> 1 | XO p -> 2 * to_int p | XI p -> 2 * to_int p + 1
let small = function Z0 -> 0 | Zpos p -> to_int p | Zneg p -> - (to_int p)

let rec string_of_integer = function
  | Z0 -> "0"
  | Zneg p -> "-" ^ string_of_integer (Zpos p)
  | z ->
      let q, r = Z.div_eucl z ten in
      (if q = Z0 then "" else string_of_integer q) ^ string_of_int (small r)

let zero = { qnum = Z0; qden = XH }
let one = { qnum = Zpos XH; qden = XH }
let add a b = if a.qnum = Z0 then b else if b.qnum = Z0 then a else qred (qplus a b)
let multiply a b = if a.qnum = Z0 || b.qnum = Z0 then zero else qred (qmult a b)
let subtract a b = add a (qopp b)

let rational_of_string s =
  match String.split_on_char '/' s with
  | [n; d] -> (match integer_of_string d with Zpos p -> { qnum = integer_of_string n; qden = p } | _ -> failwith s)
  | _ -> { qnum = integer_of_string s; qden = XH }

let string_of_rational a =
  let { qnum; qden } = qred a in
  string_of_integer qnum ^ "/" ^ string_of_integer (Zpos qden)

(* -- reading *)

let token () = Scanf.scanf " %s" (fun s -> s)
let int () = int_of_string (token ())
let rational () = rational_of_string (token ())
let times n read = let rec go k = if k = 0 then [] else let a = read () in a :: go (k - 1) in go n
let list read = let n = int () in times n read

(* scalar functions: trees over the arguments, the value y and the cotangent t *)
type scalar =
  | Number of q | Argument of int | Value | Cotangent
  | Power of int * scalar | Apply of string * scalar list

let rec scalar () =
  match token () with
  | "number" -> Number (rational ())
  | "argument" -> Argument (int ())
  | "value" -> Value
  | "cotangent" -> Cotangent
  | "power" -> let n = int () in Power (n, scalar ())
  | name -> Apply (name, list scalar)

let rec power x n = if n = 0 then one else multiply x (power x (n - 1))
let where condition a = if condition then a else zero

let apply name arguments =
  match name, arguments with
  | "add", [a; b] -> add a b
  | "subtract", [a; b] -> subtract a b
  | "multiply", [a; b] -> multiply a b
  | "recip", [a] -> qinv a
  | "relu", [a] -> where (qle_bool zero a) a
  | "abs", [a] -> if qle_bool zero a then a else qopp a
  | "sign", [a] -> subtract (where (not (qle_bool a zero)) one) (where (not (qle_bool zero a)) one)
  | "max", [a; b] -> if qle_bool b a then a else b
  | "min", [a; b] -> if qle_bool a b then a else b
  | "where_ge", [a; b; t] -> where (qle_bool b a) t
  | "where_gt", [a; b; t] -> where (not (qle_bool a b)) t
  | _ -> failwith ("no scalar function is called " ^ name)

let rec compute xs value cotangent = function
  | Number c -> c
  | Argument k -> List.nth xs k
  | Value -> value
  | Cotangent -> cotangent
  | Power (n, e) -> power (compute xs value cotangent e) n
  | Apply (name, es) -> apply name (List.map (compute xs value cotangent) es)

type definition = { arity : int; cost : int; body : scalar; components : (int * scalar) array }

let definition () =
  let arity = int () in
  let cost = int () in
  let body = scalar () in
  { arity; cost; body; components = Array.of_list (times arity (fun () -> let c = int () in (c, scalar ()))) }

(* the function symbols of the proofs: a function, or the j-th component of its transposed derivative *)
type symbol = Function of int | Component of int * int

let component f j = match f with Function k -> Component (k, j) | Component _ -> failwith "a derivative of a derivative"

(* a predicate: its points, in place of p(g, i, ..), or everything *)
let predicate width =
  match int () with
  | -1 -> fun _ -> true
  | n ->
      let points = Hashtbl.create (2 * n + 1) in
      for _ = 1 to n do Hashtbl.replace points (times width (fun () -> integer (int ()))) () done;
      Hashtbl.mem points

(* statements, each with the variables before it *)
let statement vars =
  let shape = list int in
  let rank = List.length shape in
  let var () = vars.(int ()) in
  let right_side =
    match token () with
    | "input" -> let k = int () in Input { name = k; shp = shape }
    | "constant" -> Const (rational ())
    | "addition" ->
        Add (list (fun () ->
          let minus = int () < 0 in
          let operand = var () in
          { minus; bracket = predicate rank; operand }))
    | "map" ->
        let f = int () in
        let xs = list var in
        Map (predicate rank, Function f, xs)
    | "sum" ->
        let s = list int in
        let x = var () in
        let p = predicate (rank + List.length x.shp + List.length s) in
        C1 (s, (fun g i z -> p (g @ i @ z)), x)
    | "product" ->
        let s = list int in
        let x0 = var () in
        let x1 = var () in
        let p = predicate (rank + List.length x0.shp + List.length x1.shp + List.length s) in
        C2 (s, (fun g i0 i1 z -> p (g @ i0 @ i1 @ z)), x0, x1)
    | "choice" ->
        let x = var () in
        let p = predicate (List.length x.shp) in
        Choice ((fun g i -> List.filteri (fun k _ -> k < rank) i = g && p i), x)
    | kind -> failwith ("no statement is called " ^ kind)
  in
  (shape, right_side)

let leaf () =
  let shape = list int in
  let values = Hashtbl.create 64 in
  List.iter (fun i -> Hashtbl.replace values i (rational ())) (box shape);
  (shape, values)

(* -- computing *)

(* the values of the first statements of a program, whose list is last first *)
let solve fval inp program =
  let statements = Array.of_list (List.rev program) in
  let tables = Array.map (fun _ -> Hashtbl.create 64) statements in
  let known x i = Hashtbl.find tables.(x.name) i in
  Array.iteri
    (fun k (shape, right_side) ->
      let at = eval zero add multiply qopp fval inp known right_side in
      List.iter (fun i -> Hashtbl.replace tables.(k) i (at i)) (box shape))
    statements;
  known

let case () =
  let name = token () in
  let functions = Array.of_list (list definition) in
  let leaves = Array.of_list (list leaf) in
  let count = int () in
  let vars = Array.make count { name = -1; shp = [] } in
  let program = ref [] in
  for k = 0 to count - 1 do
    let (shape, _) as s = statement vars in
    vars.(k) <- { name = k; shp = shape };
    program := s :: !program
  done;
  let leaf_var k = { name = k; shp = fst leaves.(k) } in
  let outs = list (fun () -> vars.(int ())) in
  let dys = list (fun () -> leaf_var (int ())) in
  let wrt = list (fun () -> leaf_var (int ())) in
  let fval f arguments =
    match f with
    | Function k -> compute arguments zero zero functions.(k).body
    | Component (k, j) ->
        let xs = List.filteri (fun i _ -> i < functions.(k).arity) arguments in
        let value = List.nth arguments (List.length xs) in
        let cotangent = List.nth arguments (List.length xs + 1) in
        compute xs value cotangent (snd functions.(k).components.(j))
  in
  let fcost = function
    | Function k -> integer functions.(k).cost
    | Component (k, j) -> integer (fst functions.(k).components.(j))
  in
  let inp x i = Hashtbl.find (snd leaves.(x.name)) i in
  let program = !program in
  let act = active wrt program in
  let whole, gradients = adjoint component program outs dys wrt in
  let needed = prune (List.map (fun c -> c.lhs) gradients) whole in
  let nothing _ = false in
  let say what number = Printf.printf " %s %d" what (small number) in
  Printf.printf "case %s" name;
  say "cost" (cost fcost program);
  say "dcost" (dcost component fcost (among act) program);
  say "output" (outsize outs);
  say "adjoint" (cost fcost whole);
  say "needed" (cost fcost needed);
  say "inputs" (ipcost gradients);
  say "touched" (touch fcost nothing program);
  say "all_touched" (touch fcost nothing whole);
  print_newline ();
  let value = solve fval inp needed in
  List.iter
    (fun c ->
      let numbers = List.map (fun i -> string_of_rational (value c.lhs i)) (box c.tgt.shp) in
      print_endline (String.concat " " ("gradient" :: numbers)))
    gradients

let () =
  try
    while token () = "case" do case () done
  with End_of_file -> ()
